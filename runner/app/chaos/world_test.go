//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/locks/locktest"
)

// nodes is how many Redis servers there are.
const nodes = 3

// hosts is how many state directories the invocations share.
const hosts = 2

// world is the servers and wires that lockrun depends on. The judge's own
// connections do not go over the wires.
type world struct {
	testing.TB
	redis    [nodes]*locktest.Redis
	wires    [nodes]*locktest.Relay // lockrun's way to them
	postgres *locktest.Postgres
	wire     *locktest.Relay // lockrun's way to Postgres or to the pooler
	database string
	pooler   *locktest.PgBouncer // nil = lockrun speaks to Postgres itself
	names    *nameServer
	named    bool   // lockrun asks it
	mark     string // in the environment of every process of this world
	dir      string
	program  string
	shift    time.Duration // of Postgres' clock
	down     bool          // Postgres was killed
	operator *pgx.Conn     // holds a lock
}

var worlds atomic.Int64

// newWorld starts Redis nodes of its own and uses a Postgres that may be shared.
func newWorld(tb testing.TB, program string, postgres *locktest.Postgres) *world {
	tb.Helper()
	w := &world{TB: tb, program: program, postgres: postgres}
	for i := range w.redis {
		w.redis[i] = locktest.StartRedis(tb)
		w.wires[i] = locktest.StartRelay(tb, w.redis[i].Addr())
	}
	w.wire = locktest.StartRelay(tb, w.postgresAddr())
	return w
}

func (w *world) postgresAddr() string { return fmt.Sprintf("127.0.0.1:%d", w.postgres.Port()) }

// begin makes everything new for a schedule: an empty database with lockrun's
// schema, the judge's tables in it, empty nodes, empty directories.
func (w *world) begin(p *plan) {
	w.mark = fmt.Sprintf("%d-%d", os.Getpid(), worlds.Add(1))
	w.dir = filepath.Join(buildDir, "world-"+w.mark)
	for host := range hosts {
		w.must(os.MkdirAll(w.stateDir(host), 0o700))
	}
	if p.Shift != w.shift {
		w.postgres.Stop()
		w.postgres.Shift(p.Shift)
		w.postgres.Start()
		w.shift = p.Shift
	}
	w.database = "chaos" + strings.ReplaceAll(w.mark, "-", "_")
	w.postgres.Exec(w.TB, "postgres", "CREATE DATABASE "+w.database)
	if w.named = p.Named && w.names != nil; w.named {
		w.writeResolvConf()
	}
	w.pooler = nil
	w.wire.Retarget(w.postgresAddr())
	if p.Pooled {
		w.startPooler()
	}
	if out, err := w.command(0, "init").CombinedOutput(); err != nil {
		w.Fatalf("init: %v\n%s", err, out)
	}
	w.postgres.Exec(w.TB, w.database, judgesTables)
	for _, r := range w.redis {
		w.redisDo(r, "FLUSHALL")
	}
}

// startPooler puts a pooler between lockrun and Postgres.
func (w *world) startPooler() {
	w.pooler = locktest.StartPgBouncer(w.TB, w.postgres, w.database, "transaction", 20)
	u, err := url.Parse(w.pooler.DSN())
	w.must(err)
	w.wire.Retarget(u.Host)
}

// renewPooler kills the pooler and starts another one in its place.
func (w *world) renewPooler() {
	w.pooler.Kill()
	w.startPooler()
	w.wire.Reset()
}

// judgesTables keep every state of the lease rows, and the jobs' ledger.
const judgesTables = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.lease (seq bigserial PRIMARY KEY, name text, run_id text, token bigint, acquired timestamptz, at timestamptz, until timestamptz);
CREATE TABLE chaos.ledger (number bigserial PRIMARY KEY, name text, run_id uuid, token bigint);
CREATE FUNCTION chaos.watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.lease (name, run_id, token, acquired, at, until)
  VALUES (NEW.name, NEW.run_id::text, NEW.token, NEW.acquired_at,
          CASE WHEN TG_OP = 'INSERT' OR NEW.renewed_at IS DISTINCT FROM OLD.renewed_at THEN NEW.renewed_at ELSE clock_timestamp() END, NEW.expires_at);
  RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE ON lockrun.lease FOR EACH ROW EXECUTE FUNCTION chaos.watch();`

// finish forgets a schedule.
func (w *world) finish() {
	w.heal()
	if w.pooler != nil {
		w.pooler.Kill()
	}
	w.postgres.Exec(w.TB, "postgres", "DROP DATABASE "+w.database+" WITH (FORCE)")
	w.must(os.RemoveAll(w.dir))
}

func (w *world) stateDir(host int) string { return filepath.Join(w.dir, fmt.Sprintf("host%d", host)) }

// dsn is lockrun's way to the database.
func (w *world) dsn() string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", w.reach(w.wire.Addr(), "postgres"), w.database)
}

// connect is the judge's way.
func (w *world) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, w.postgres.DSN(w.database)+"&options=-c%20default_transaction_read_only%3Doff")
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// sql runs a statement as the operator; an error means that the server is away.
func (w *world) sql(text string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, text, args...)
	return err
}

// redisDo sends a command to a node, past the wire.
func (w *world) redisDo(r *locktest.Redis, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c := r.Client()
	defer func() { _ = c.Close() }()
	conn := c.Conn()
	defer func() { _ = conn.Close() }()
	err := conn.Do(ctx, args...).Err()
	if err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
		if err = conn.Auth(ctx, wrongPassword).Err(); err == nil {
			err = conn.Do(ctx, args...).Err()
		}
	}
	return err
}

// wrongPassword is what a node wants all of a sudden.
const wrongPassword = "nobody-knows"

// heal ends every fault, whatever it was.
func (w *world) heal() {
	for i, r := range w.redis {
		w.wires[i].Heal()
		r.Resume()
		if w.redisDo(r, "PING") != nil {
			r.Kill()
			r.Start()
		}
		for _, c := range [][]any{
			{"REPLICAOF", "NO", "ONE"}, {"CONFIG", "SET", "maxmemory", "0"}, {"CONFIG", "SET", "maxmemory-policy", "noeviction"},
			{"CONFIG", "SET", "requirepass", ""},
		} {
			w.must(w.redisDo(r, c...))
		}
	}
	w.wire.Heal()
	cheerUp(w, plannedFault{})
	w.releaseOperator()
	if !w.down {
		w.postgres.Resume()
	}
	w.startPostgres()
	w.must(w.writable(true))
	if w.pooler != nil {
		w.pooler.Resume()
	}
}

// startPostgres brings Postgres back if it was killed.
func (w *world) startPostgres() {
	if w.down {
		w.postgres.Start()
		w.down = false
	}
}

// writable makes new transactions of everybody but the operator read-write or
// read-only.
func (w *world) writable(yes bool) error {
	text := "ALTER SYSTEM RESET default_transaction_read_only"
	if !yes {
		text = "ALTER SYSTEM SET default_transaction_read_only = on"
	}
	return errors.Join(w.sql(text), w.sql("SELECT pg_reload_conf()"))
}

func (w *world) releaseOperator() {
	if w.operator != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.operator.Close(ctx)
		w.operator = nil
	}
}
