package postgres

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// TestTLS has a server that lets in nobody without a certificate of its own
// authority. Whoever can't be verified is refused for good, and named.
func TestTLS(t *testing.T) {
	ours := locktest.NewAuthority(t, "ours")
	strangers := locktest.NewAuthority(t, "strangers")
	serverCert, serverKey := ours.Issue(t, "server", net.IPv4(127, 0, 0, 1))
	clientCert, clientKey := ours.Issue(t, "postgres")
	otherCert, otherKey := strangers.Issue(t, "postgres")

	pg := locktest.NewPostgres(t)
	pg.Initdb()
	install := func(name, from string) string {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		return pg.Install(name, content)
	}
	settings := []string{
		"ssl=on", "ssl_cert_file=" + install("server.crt", serverCert), "ssl_key_file=" + install("server.key", serverKey),
		"ssl_ca_file=" + install("ca.crt", ours.CA),
	}
	const trusted = "hostnossl all postgres 127.0.0.1/32 trust\n" // for the test itself
	pg.Install("pg_hba.conf", []byte(trusted+"hostssl all all 127.0.0.1/32 cert\n"))
	pg.Start(settings...)
	if _, err := Init(bounded(t, 20*time.Second), config(t, pg.DSN("postgres"))); err != nil {
		t.Fatal(err)
	}
	plain := locktest.SharedPostgres(t)

	for _, test := range []struct {
		name      string
		port      int
		host      string
		mode      string
		ca        string
		cert, key string
		text      string // of the error; "" = it gets in
	}{
		{"verified", pg.Port(), "127.0.0.1", "verify-full", ours.CA, clientCert, clientKey, ""},
		{"unknown_authority", pg.Port(), "127.0.0.1", "verify-full", strangers.CA, clientCert, clientKey, "unknown authority"},
		{"verify_ca_unknown_authority", pg.Port(), "127.0.0.1", "verify-ca", strangers.CA, clientCert, clientKey, "unknown authority"},
		{"other_name", pg.Port(), "localhost", "verify-full", ours.CA, clientCert, clientKey, "localhost"},
		{"no_client_certificate", pg.Port(), "127.0.0.1", "verify-full", ours.CA, "", "", "certificate"},
		{"client_of_others", pg.Port(), "127.0.0.1", "verify-full", ours.CA, otherCert, otherKey, "valid client certificate"},
		{"server_without_tls", plain.Port(), "127.0.0.1", "verify-full", ours.CA, clientCert, clientKey, "TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			query := url.Values{"sslmode": {test.mode}, "sslrootcert": {test.ca}}
			if test.cert != "" {
				query.Set("sslcert", test.cert)
				query.Set("sslkey", test.key)
			}
			dsn := fmt.Sprintf("postgres://postgres@%s:%d/postgres?%s", test.host, test.port, query.Encode())
			s := store(t, dsn)
			a, err := s.Acquire(bounded(t, 20*time.Second), request(test.name, "2026-01-02"))
			odd := strings.Join(examined(t, dsn), "\n")
			if test.text == "" {
				if err != nil || a.Token == 0 || strings.Contains(odd, "fail") {
					t.Fatalf("%+v, %v, %s", a, err, odd)
				}
				return
			}
			var setup *locks.SetupError
			if !errors.As(err, &setup) || !strings.Contains(err.Error(), test.text) || setup.Next == "" {
				t.Errorf("got %T: %v", err, err)
			}
			if !strings.Contains(odd, "fail reachable: ") || !strings.Contains(odd, test.text) {
				t.Errorf("examined: %s", odd)
			}
		})
	}
}
