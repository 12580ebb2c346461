package locktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PgBouncer is a pooler in front of a [Postgres], as a user of lockrun may have.
type PgBouncer struct {
	*Process
	port int
	dsn  string
}

// StartPgBouncer starts a pooler for one database in the given pool mode
// ("transaction", "statement", "session") with poolSize server connections.
func StartPgBouncer(tb testing.TB, p *Postgres, database, mode string, poolSize int) *PgBouncer {
	tb.Helper()
	path := FindBinary(tb, "pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	cred := unprivileged(tb, "postgres")
	dir := tempDir(tb, cred)
	b := &PgBouncer{port: FreePort(tb)}
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
		return file
	}
	users := write("users.txt", "\"postgres\" \"\"\n")
	config := write("pgbouncer.ini", fmt.Sprintf(`[databases]
%s = host=127.0.0.1 port=%d dbname=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = %s
default_pool_size = %d
max_client_conn = 500
`, database, p.port, database, b.port, users, mode, poolSize))
	b.dsn = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", b.port, database)
	b.Process = startProcess(tb, cred, path, config)
	tb.Cleanup(func() { b.stop(syscall.SIGINT) })
	err := b.waitReady(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, b.dsn)
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// DSN is what --postgres takes to go through the pooler.
func (b *PgBouncer) DSN() string { return b.dsn }
