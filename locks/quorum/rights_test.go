package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// rights is the smallest set, as the package's documentation has it.
const rights = "resetkeys ~lockrun:* resetchannels -@all +set +get +del +pexpire +pttl +eval +rpush +blpop"

// cycle needs every right: acquire, be refused, renew, wait, release.
func cycle(t *testing.T, node *locktest.Redis, url string) error {
	t.Helper()
	l := &log{}
	a, b := open(t, time.Minute, []string{url}, withLog(l)), open(t, time.Minute, []string{url}, withLog(l))
	errs := []error{a.Acquire(bounded(t), claim("node 7"))}
	var held *locks.HeldError
	if err := b.Acquire(bounded(t), claim("node 8")); !errors.As(err, &held) {
		errs = append(errs, err, errors.New("not held"))
	}
	errs = append(errs, a.Renew(bounded(t)))
	if held != nil {
		ctx, cancel := context.WithCancel(bounded(t))
		defer cancel()
		got := make(chan error, 1)
		go func() { got <- b.Wait(ctx, held) }()
		poll(t, "it waits", func() bool {
			return blocked(t, node) == 1 || strings.Contains(l.String(), "failed")
		})
		if err := a.Release(bounded(t)); err != nil {
			errs = append(errs, err)
			cancel() // nobody will wake it
		}
		if text := l.String(); strings.Contains(text, "failed") {
			errs = append(errs, errors.New(text))
			cancel()
		}
		errs = append(errs, result(t, got))
	}
	return errors.Join(errs...)
}

func TestRights(t *testing.T) {
	node := locktest.StartRedis(t)
	url := "redis://u:s3cret@" + node.Addr()
	setUser := func(rules string) {
		args := []any{"ACL", "SETUSER", "u", "reset", "on", ">s3cret"}
		for f := range strings.FieldsSeq(rules) {
			args = append(args, f)
		}
		do(t, node, args...)
	}
	setUser(rights)
	if err := cycle(t, node, url); err != nil {
		t.Errorf("with all of them: %v", err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(doc), "//", " ")), " ")
	must(t, text, "ACL SETUSER lockrun on >PASSWORD "+rights)
	for right := range strings.FieldsSeq(rights) {
		if !strings.HasPrefix(right, "+") {
			continue
		}
		setUser(strings.Replace(rights, right, "", 1))
		flush(t, []*locktest.Redis{node})
		if err := cycle(t, node, url); err == nil {
			t.Errorf("it works without %s, so that is not needed", right)
		}
	}
}

func TestTLS(t *testing.T) {
	ours := locktest.NewAuthority(t, "ours")
	ca := ours.CA
	serverCert, serverKey := ours.Issue(t, "server", net.IPv4(127, 0, 0, 1))
	clientCert, clientKey := ours.Issue(t, "client")
	otherCert, otherKey := ours.Issue(t, "elsewhere", net.IPv4(192, 0, 2, 1))
	strangersCA := locktest.NewAuthority(t, "strangers").CA
	server := func(cert, key string) string {
		port := strconv.Itoa(locktest.FreePort(t))
		addr := net.JoinHostPort("127.0.0.1", port)
		locktest.StartRedis(t, "--tls-port", port,
			"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "yes")
		return "rediss://" + addr
	}
	good, wrongName := server(serverCert, serverKey), server(otherCert, otherKey)
	plain := "rediss://" + locktest.StartRedis(t).Addr()

	for _, test := range []struct {
		name, url string
		files     TLSFiles
		text      string // of the error
		setup     bool
	}{
		{"verified", good, TLSFiles{ca, clientCert, clientKey}, "", false},
		{"unknown_authority", good, TLSFiles{strangersCA, clientCert, clientKey}, "unknown authority", true},
		{"system_roots", good, TLSFiles{"", clientCert, clientKey}, "unknown authority", true},
		{"other_name", wrongName, TLSFiles{ca, clientCert, clientKey}, "192.0.2.1", true},
		{"server_without_tls", plain, TLSFiles{CA: ca}, "no answer", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := open(t, time.Minute, []string{test.url}, func(o *Options) { o.TLS = test.files })
			err := q.Acquire(bounded(t), claim("node 7"))
			findings, failed := Examine(bounded(t), Options{URLs: []string{test.url}, TLS: test.files, Timing: q.timing})
			if said := fmt.Sprint(findings); failed != nil || strings.Contains(said, "{redis reachable fail") == (test.text == "") ||
				!strings.Contains(said, test.text) {
				t.Errorf("examined: %v, %v", said, failed)
			}
			if test.text == "" {
				if err != nil {
					t.Fatal(err)
				}
				release(t, q)
				return
			}
			var setup *locks.SetupError
			if err == nil || errors.As(err, &setup) != test.setup {
				t.Fatalf("got %T: %v", err, err)
			}
			must(t, err.Error(), test.text)
		})
	}

	// Over TLS 1.3 the refusal may be overtaken by the end of the connection.
	if err := open(t, time.Minute, []string{good}, func(o *Options) { o.TLS.CA = ca }).Acquire(bounded(t), claim("node 7")); err == nil {
		t.Error("got in without a client certificate")
	}

	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		url   string
		files TLSFiles
		flag  string
	}{
		{good, TLSFiles{CA: missing}, "--redis-ca"},
		{good, TLSFiles{CA: serverKey}, "--redis-ca"},
		{good, TLSFiles{Cert: missing, Key: clientKey}, "--redis-cert"},
		{good, TLSFiles{Cert: clientCert, Key: missing}, "--redis-key"},
		{good, TLSFiles{Cert: clientCert}, "--redis-cert"},
		{good, TLSFiles{Key: clientKey}, "--redis-key"},
		{good, TLSFiles{Cert: clientCert, Key: serverKey}, "--redis-cert"},
		{"redis://h", TLSFiles{CA: ca}, "--redis-ca"},
	} {
		_, err := New(Options{URLs: []string{test.url}, TLS: test.files})
		var option *OptionError
		if !errors.As(err, &option) || option.Flag != test.flag {
			t.Errorf("%+v: %v", test.files, err)
		}
	}
}

// TestUnixSocket also has a database and a login.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "r.sock")
	locktest.StartRedis(t, "--unixsocket", path, "--requirepass", "s3cret")
	q := open(t, time.Minute, []string{"unix://:s3cret@" + path + "?db=3"})
	acquire(t, q, claim("node 7"))
	release(t, q)
}

// TestLibraryIsSilent makes the library want to say something.
func TestLibraryIsSilent(t *testing.T) {
	l := &log{}
	q := open(t, time.Minute, []string{"redis://127.0.0.1:1"}, withLog(l))
	libraryLog{}.Printf(context.Background(), "dial %s", "x")
	must(t, l.String(), "redis library: dial x")
	refused[*locks.UnavailableError](t, q, claim("node 7"))
}
