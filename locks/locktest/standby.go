package locktest

import (
	"fmt"
	"strings"
	"testing"
)

// StandbyOf makes a hot standby of a running primary and starts it on a port of
// its own, with further settings. It copies asynchronously unless the primary
// is told to wait for it: its application_name is what its [Postgres.Name] says.
func StandbyOf(tb testing.TB, primary *Postgres, settings ...string) *Postgres {
	tb.Helper()
	s := NewPostgres(tb)
	s.Tool("pg_basebackup", "-D", s.Data(), "-X", "stream", "-c", "fast", "-R",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s", primary.Port(), s.Name()))
	s.Start(append([]string{"hot_standby=on"}, settings...)...)
	return s
}

// Name is what a standby calls itself, for synchronous_standby_names.
func (p *Postgres) Name() string { return fmt.Sprintf("on_%d", p.port) }

// HostsDSN is what --postgres takes for a database that one of several servers
// has, in the order in which they are to be tried.
func HostsDSN(database string, servers ...*Postgres) string {
	hosts := make([]string, len(servers))
	for i, s := range servers {
		hosts[i] = fmt.Sprintf("127.0.0.1:%d", s.port)
	}
	return "postgres://postgres@" + strings.Join(hosts, ",") + "/" + database + "?sslmode=disable"
}
