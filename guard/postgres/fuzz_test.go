package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// FuzzParseDSN has a secret in the password, in whatever company.
func FuzzParseDSN(f *testing.F) {
	f.Setenv("PGPASSFILE", "/dev/null")
	f.Setenv("PGSERVICEFILE", "/dev/null")
	f.Setenv("PGSYSCONFDIR", "/dev/null")
	for _, parts := range [][2]string{
		{"", ""}, {"a@b", "/c"}, {"%", ""}, {"a b", " c"}, {"'", ""}, {"a?b", "=1"}, {"", " host=h"}, {"\\", "'"}, {"a#", ""}, {"a&b", "=c&d"},
		{"1", ""}, {"a,b:1,", ":2"}, {"@h/?", "=1"}, {"a b=c ", "=1"}, {"& ", "=c&d"}, {"'", "=c"},
	} {
		f.Add(parts[0], parts[1])
	}
	const mark = "S3CRET"
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, mark[:3]) {
			return
		}
		for _, dsn := range []string{
			"postgres://u:" + before + mark + after + "@h/d",
			"host=h user=u password=" + before + mark + after,
			"host=h user=u password='" + before + mark + after + "'",
		} {
			cfg, err := ParseDSN(dsn)
			if err != nil && strings.Contains(err.Error(), mark) {
				t.Errorf("%q: %v", dsn, err)
			}
			if err == nil && strings.Contains(cfg.Address(), mark) {
				t.Errorf("%q is shown as %q", dsn, cfg.Address())
			}
		}
	})
}

// FuzzExplain reads what a server says, whoever it is.
func FuzzExplain(f *testing.F) {
	f.Add("FATAL", "28P01", "password authentication failed")
	f.Add("ERROR", "08P01", "no such user\n\x1b[2J")
	f.Add("", "", "")
	f.Add("", "\r", "0")
	cfg, err := ParseDSN("postgres://u:s3cret-w0rd@127.0.0.1/d")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, severity, code, message string) {
		err := &pgconn.PgError{Severity: severity, Code: code, Message: message}
		if text := cfg.explain(err, 0); strings.ContainsAny(text, "\r\n\t") {
			t.Errorf("%q has more than one line", text)
		} else if strings.Contains(text, "s3cret-w0rd") {
			t.Errorf("%q holds the password", text)
		}
		_, _ = classify(err), advice(err)
	})
}
