package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// talkative starts a server that asks for the password and then refuses it with
// words made of it.
func talkative(t *testing.T, words func(password string) string) (address string) {
	t.Helper()
	return locktest.Serve(t, func(c net.Conn) {
		b := pgproto3.NewBackend(c, c)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(&pgproto3.AuthenticationCleartextPassword{})
		if b.Flush() != nil || b.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
			return
		}
		m, err := b.Receive()
		if err != nil {
			return
		}
		if p, ok := m.(*pgproto3.PasswordMessage); ok {
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "28P01", Message: words(p.Password)})
			_ = b.Flush()
		}
	})
}

// Whatever a server makes of the password, nobody gets to read it.
func TestServersThatRepeatThePassword(t *testing.T) {
	isolate(t)
	const password = "Tr0ub4dor\n& 3-horse%22battery"
	for _, c := range []struct {
		name  string
		words func(string) string
	}{
		{"whole", func(p string) string { return "bad password " + p + "!" }},
		{"cut_behind", func(p string) string { return "bad password " + p[:8] }},
		{"cut_before", func(p string) string { return p[len(p)-7:] }},
		{"one_line", func(p string) string { return strings.Join(strings.Fields(p), " ") }},
		{"escaped", func(p string) string { return strings.ReplaceAll(p, "\n", `\n`) }},
		{"quoted", func(p string) string { return strings.Join(strings.Split(p, ""), "'") }},
		{"upper_case", strings.ToUpper},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := talkative(t, c.words)
			cfg := config(t, "postgres://u:Tr0ub4dor%0A%26%203-horse%2522battery@"+address+"/x?sslmode=disable")
			if cfg.conn.Password != password {
				t.Fatalf("the password is %q", cfg.conn.Password)
			}
			_, err := cfg.Connect(bounded(t, 20*time.Second))
			wantSetup(t, err, "check user, password", "not shown", "28P01")
			text := letters(err.Error())
			for _, piece := range []string{"tr0ub4", "ub4dor", "horse2", "attery"} {
				if strings.Contains(text, piece) {
					t.Errorf("shown: %v", err)
				}
			}
		})
	}
	for name, dsn := range map[string]string{
		"short":       "postgres://u:sk3y@ADDRESS/x?sslmode=disable",
		"other":       "postgres://u:battery-staple@ADDRESS/x?sslmode=disable",
		"public_word": "postgres://bob:postgres-bob@ADDRESS/x?sslmode=disable",
		"only_signs":  "postgres://u:%3F%3F%3F@ADDRESS/x?sslmode=disable",
	} {
		t.Run("harmless_"+name, func(t *testing.T) {
			address := talkative(t, func(string) string { return "no entry in pg_hba.conf of this postgres for bob" })
			_, err := config(t, strings.Replace(dsn, "ADDRESS", address, 1)).Connect(bounded(t, 20*time.Second))
			wantSetup(t, err, "", "no entry in pg_hba.conf of this postgres for bob")
		})
	}
	for name, password := range map[string]string{"short": "sk3y", "only_signs": "???"} {
		t.Run("told_"+name, func(t *testing.T) {
			address := talkative(t, func(p string) string { return "I was told " + p })
			_, err := config(t, "host="+strings.Replace(address, ":", " port=", 1)+" user=u sslmode=disable password="+password).Connect(bounded(t, 20*time.Second))
			wantSetup(t, err, "", "not shown")
		})
	}
}

// A resolver that waits for its server ends when it is told to.
func TestLookUpEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := lookUp(ctx, "db.example", func(context.Context, string) ([]string, error) {
		close(asked)
		<-release
		return nil, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	got, err := lookUp(t.Context(), "db.example", func(_ context.Context, host string) ([]string, error) { return []string{host}, nil })
	if err != nil || len(got) != 1 || got[0] != "db.example" {
		t.Errorf("got %q %v", got, err)
	}
}

// One limit is for all hosts and all ways of asking each: with sslmode=prefer, the
// default, there are two.
func TestConnectingHasOneLimit(t *testing.T) {
	isolate(t)
	cfg := config(t, "postgres://u@db.example/x")
	cfg.tune(500*time.Millisecond, time.Second)
	calls := 0
	cfg.conn.LookupFunc = func(ctx context.Context, _ string) ([]string, error) {
		calls++
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := cfg.Connect(bounded(t, 20*time.Second))
	var away *locks.UnavailableError
	if !errors.As(err, &away) || calls == 0 {
		t.Errorf("after %d look-ups: %v", calls, err)
	}
}
