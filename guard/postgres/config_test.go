package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// isolate takes the PG* variables and files of whoever runs the test away.
func isolate(t *testing.T) (home string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PG") {
			t.Setenv(name, "")
		}
	}
	home = t.TempDir()
	t.Setenv("HOME", home)
	return home
}

func TestParseDSN(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		dsn, address string
		params       map[string]string // beside client_encoding; nil = application_name alone
	}{
		{"postgres://u:p@db:6000/x", "db:6000/x", nil},
		{"postgresql://u@[::1]/x?sslmode=disable", "[::1]:5432/x", nil},
		{"host=db port=6000 user=u dbname=x password='a b\\'c'", "db:6000/x", nil},
		{"host=/run/pg user=u dbname=x", "/run/pg:5432/x", nil},
		{"postgres://u@a,b:6000,c/x", "a:5432,b:6000,c:5432/x", nil},
		{"host=a,b port=1,2 dbname=x user=u", "a:1,b:2/x", nil},
		{"postgres://u@db/x?keepalives=1&keepalives_idle=5&keepalives_interval=5&keepalives_count=3&tcp_user_timeout=9000", "db:5432/x", nil},
		{"postgres://u@db/x?gssencmode=disable&load_balance_hosts=random&sslcompression=0&pool_max_conns=4", "db:5432/x", nil},
		{"postgres://u@db/x?channel_binding=prefer&connect_timeout=3&client_encoding=auto", "db:5432/x", nil},
		{"postgres://u@db/x?fallback_application_name=eod", "db:5432/x", map[string]string{"application_name": "eod"}},
		{"postgres://u@db/x?fallback_application_name=eod&application_name=mine", "db:5432/x", map[string]string{"application_name": "mine"}},
		{"host=db user=u dbname=x TimeZone=UTC myapp.tenant=7", "db:5432/x", map[string]string{"TimeZone": "UTC", "myapp.tenant": "7", "application_name": "lockrun"}},
		{"host=db user=u dbname=x options='-c lockrun.run_id=9b2f -c work_mem=1MB'", "db:5432/x", map[string]string{"options": "-c work_mem=1MB", "application_name": "lockrun"}},
		{"host=db user=u dbname=x options='-c lockrun.run_id=9b2f'", "db:5432/x", nil},
	} {
		t.Run(c.dsn, func(t *testing.T) {
			cfg := config(t, c.dsn)
			if got := cfg.Address(); got != c.address {
				t.Errorf("address %q, want %q", got, c.address)
			}
			want := c.params
			if want == nil {
				want = map[string]string{"application_name": "lockrun"}
			}
			want["client_encoding"] = "UTF8"
			if got := fmt.Sprint(cfg.conn.RuntimeParams); got != fmt.Sprint(want) {
				t.Errorf("the server gets %s, want %v", got, want)
			}
			if cfg.conn.DefaultQueryExecMode != pgx.QueryExecModeExec || cfg.conn.StatementCacheCapacity+cfg.conn.DescriptionCacheCapacity != 0 {
				t.Error("statements would be prepared")
			}
			if cfg.conn.ConnectTimeout <= 0 || cfg.conn.ConnectTimeout > connectTimeout {
				t.Errorf("connect timeout %v", cfg.conn.ConnectTimeout)
			}
			if several := strings.Contains(c.address, ","); several != (cfg.conn.ValidateConnect != nil) {
				t.Errorf("looks for a writable host: %v, want %v", !several, several)
			}
		})
	}
}

func TestParseDSNRefuses(t *testing.T) {
	isolate(t)
	for _, c := range []struct{ dsn, says string }{
		{"postgres://u@db/x?hots=other", `unknown keyword "hots"`},
		{"host=db hots=other user=u", `unknown keyword "hots"`},
		{"postgres://u:p@db/x?ssl=maybe", `unknown keyword "ssl"`},
		{"host=db password='a b' hots=other", "an unknown keyword: "}, // perhaps a piece of the password
		{"host=db hots=other password='a b'", `unknown keyword "hots"`},
		{"host=db hostaddr=10.0.0.1", "hostaddr is not supported"},
		{"host=db gssencmode=require", "gssencmode is not supported"},
		{"host=db sslcrl=/etc/crl", "sslcrl is not supported"},
		{"host=db sslmode=maybe", "sslmode is invalid"},
		{"host=db sslrootcert=/no/such/ca.pem sslmode=verify-full", "/no/such/ca.pem"},
		{"host=db target_session_attrs=fast", "unknown target_session_attrs"},
		{"host=db connect_timeout=500ms", "invalid connect_timeout"},
		{"host=db port=no", "invalid port"},
		{"host=db ssl_min_protocol_version=SSLv3", "ssl_min_protocol_version"},
		{"db.example.com", "postgres://user:password@host:port/database"},
		{"mysql://db/x", "can't be read"},
	} {
		t.Run(c.dsn, func(t *testing.T) {
			_, err := ParseDSN(c.dsn)
			if err == nil {
				t.Fatal("accepted")
			}
			wantText(t, err, c.says)
		})
	}
}

// Whatever a password has in it, and however it was mangled, no error and no
// printed config shows a part of it.
func TestNoPasswordIsShown(t *testing.T) {
	isolate(t)
	closed := locktest.FreePort(t)
	for _, special := range []string{"@", ":", "/", ",", "%", " ", "?", "#", "&", "=", "'", `\`, "%zz", "@/", "/@", "?@", "@:5432/", "&b=", " b=", "' b='"} {
		left, right := "SECRETL", "SECRETR"
		password := left + special + right
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
		for name, dsn := range map[string]string{
			"url":           fmt.Sprintf("postgres://u:%s@127.0.0.1:%d/x?sslmode=disable", password, closed),
			"url_escaped":   fmt.Sprintf("postgres://u:%s@127.0.0.1:%d/x?sslmode=disable", strings.ReplaceAll(url.QueryEscape(password), "+", "%20"), closed),
			"url_query":     fmt.Sprintf("postgres://u@127.0.0.1:%d/x?sslmode=disable&password=%s", closed, password),
			"url_bad_port":  fmt.Sprintf("postgres://u:%s@127.0.0.1:nope/x", password),
			"url_typo":      fmt.Sprintf("postgres://u:%s@127.0.0.1:%d/x?hots=a", password, closed),
			"scheme":        fmt.Sprintf("jdbc:postgresql://u:%s@127.0.0.1/x?sslmode=disable", password),
			"no_scheme":     fmt.Sprintf("u:%s@127.0.0.1/x", password),
			"pairs":         fmt.Sprintf("host=127.0.0.1 port=%d user=u password=%s dbname=x sslmode=disable", closed, password),
			"pairs_quoted":  fmt.Sprintf("host=127.0.0.1 port=%d user=u password='%s' dbname=x sslmode=disable", closed, quoted),
			"pairs_at_end":  fmt.Sprintf("host=127.0.0.1 port=%d user=u dbname=x sslmode=disable password=%s", closed, password),
			"pairs_no_host": fmt.Sprintf("user=u password=%s hots=a", password),
		} {
			t.Run(name+special, func(t *testing.T) {
				shown := func(s string) {
					t.Helper()
					if strings.Contains(s, left) || strings.Contains(s, right) {
						t.Errorf("shown: %s", s)
					}
				}
				cfg, err := ParseDSN(dsn)
				if err != nil {
					if strings.Contains(name, "escaped") || name == "pairs_quoted" {
						t.Errorf("refused: %v", err)
					}
					shown(fmt.Sprintf("%v %+v %#v", err, err, err))
					return
				}
				if (strings.Contains(name, "escaped") || name == "pairs_quoted") && cfg.conn.Password != password {
					t.Errorf("password %q, want %q", cfg.conn.Password, password)
				}
				shown(fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.Address()))
				_, err = New(cfg, timing(t, time.Second)).Acquire(bounded(t, 20*time.Millisecond), request("eod", ""))
				if err == nil {
					t.Fatal("connected to nothing")
				}
				shown(err.Error())
			})
		}
	}
}

func TestEnvironment(t *testing.T) {
	isolate(t)
	pg := locktest.SharedPostgres(t)
	d := newDatabase(t)
	t.Setenv("PGHOST", "127.0.0.1")
	t.Setenv("PGPORT", fmt.Sprint(pg.Port()))
	t.Setenv("PGUSER", "postgres")
	t.Setenv("PGDATABASE", d.text("SELECT current_database()"))
	t.Setenv("PGSSLMODE", "disable")
	for _, dsn := range []string{"", "application_name=mine"} {
		granted(t, store(t, dsn), request("env"+dsn, ""))
	}
}

func TestPassfile(t *testing.T) {
	home := isolate(t)
	write := func(path string, mode os.FileMode) string {
		t.Helper()
		if err := os.WriteFile(path, []byte("*:*:*:*:secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open, odd := filepath.Join(t.TempDir(), "open"), filepath.Join(t.TempDir(), "it's open")
	write(open, 0o640)
	write(odd, 0o604)
	closed := write(filepath.Join(t.TempDir(), "closed"), 0o600)
	for _, c := range []struct{ name, dsn, env, refused string }{
		{"named", "postgres://u@db/x?passfile=" + url.PathEscape(odd), "", odd},
		{"named_in_pairs", `host=db user=u passfile='` + strings.ReplaceAll(odd, "'", `\'`) + `'`, "", odd},
		{"named_first", "host=db passfile=" + open + " user=u", closed, open},
		{"environment", "postgres://u@db/x", open, open},
		{"not_needed", "postgres://u:p@db/x", open, ""},
		{"closed", "postgres://u@db/x?passfile=" + closed, open, ""},
		{"closed_in_environment", "postgres://u@db/x", closed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PGPASSFILE", c.env)
			cfg, err := ParseDSN(c.dsn)
			if c.refused != "" {
				wantSetup(t, err, "chmod 600", c.refused)
				return
			}
			if err != nil || cfg.conn.Password == "" {
				t.Errorf("%v %v, want a password", cfg, err)
			}
		})
	}
	t.Setenv("PGPASSFILE", "")
	write(filepath.Join(home, ".pgpass"), 0o644)
	_, err := ParseDSN("postgres://u@db/x")
	wantSetup(t, err, "chmod 600", ".pgpass")
	if _, err := ParseDSN("postgres://u:p@db/x"); err != nil {
		t.Error(err)
	}
}

func TestTLSVersions(t *testing.T) {
	isolate(t)
	c := config(t, "host=a,b user=u sslmode=require ssl_min_protocol_version=TLSv1.3").conn
	if c.TLSConfig.MinVersion != tls.VersionTLS13 || c.Fallbacks[0].TLSConfig.MinVersion != tls.VersionTLS13 {
		t.Error("TLS below 1.3 is let pass")
	}
	if c := config(t, "host=a user=u sslmode=require ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.2").conn; c.TLSConfig.MinVersion != tls.VersionTLS12 || c.TLSConfig.MaxVersion != tls.VersionTLS12 {
		t.Error("want TLS 1.2 and nothing else")
	}
}

func TestConnectTimeouts(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		dsn  string
		want time.Duration
	}{
		{"postgres://u@a/x", time.Second},
		{"postgres://u@a/x?connect_timeout=30", time.Second},
		{"postgres://u@a,b/x", time.Second / 3},
		{"postgres://u@a,b/x?connect_timeout=30", time.Second / 3},
	} {
		if got := config(t, c.dsn).tuned(timing(t, testTTL)).conn.ConnectTimeout; got.Round(time.Millisecond) != c.want.Round(time.Millisecond) {
			t.Errorf("%s: %v for each host, want %v of a call's second", c.dsn, got, c.want)
		}
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	isolate(t)
	for range 2 {
		dsn := fmt.Sprintf("postgres://u:SECRET@127.0.0.1:%d,localhost:%d/x", locktest.FreePort(t), locktest.FreePort(t))
		_, err := config(t, dsn).Connect(bounded(t, 5*time.Second))
		wantUnavailable(t, err, false, "connection refused")
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("shown: %v", err)
		}
	}
	again := config(t, "host=a user=u").Fault(&locks.SetupError{What: "x", Err: errors.New("y")})
	wantSetup(t, again, "", "x: y")
}
