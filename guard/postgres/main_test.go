package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/locks/locktest"
)

func TestMain(m *testing.M) { os.Exit(locktest.Main(m)) }

// testTTL makes calls of one second and lock timeouts of half of one.
const testTTL = 6 * time.Second

func timing(tb testing.TB, ttl time.Duration) locks.Timing {
	tb.Helper()
	t, err := locks.NewTiming(ttl, -1)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func config(tb testing.TB, dsn string) *Config {
	tb.Helper()
	cfg, err := ParseDSN(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	return cfg
}

func store(tb testing.TB, dsn string) *Store {
	tb.Helper()
	s := New(config(tb, dsn), timing(tb, testTTL))
	tb.Cleanup(s.Close)
	return s
}

// database is an empty database with the schema in it.
type database struct {
	testing.TB
	dsn  string
	conn *pgx.Conn // the superuser's
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	return initDatabase(tb, locktest.SharedPostgres(tb).Database(tb))
}

func initDatabase(tb testing.TB, dsn string) *database {
	tb.Helper()
	if _, err := Init(bounded(tb, 20*time.Second), config(tb, dsn)); err != nil {
		tb.Fatal(err)
	}
	return &database{TB: tb, dsn: dsn, conn: connectTo(tb, dsn)}
}

func connectTo(tb testing.TB, dsn string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(bounded(tb, 20*time.Second), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func bounded(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

func (d *database) exec(sql string, args ...any) {
	d.Helper()
	if _, err := d.conn.Exec(bounded(d.TB, 20*time.Second), sql, args...); err != nil {
		d.Fatal(err)
	}
}

// text is the first column of the first row as text; "" for no row or NULL.
func (d *database) text(sql string, args ...any) string {
	d.Helper()
	return queryText(d.TB, d.conn, sql, args...)
}

func queryText(tb testing.TB, conn *pgx.Conn, sql string, args ...any) string {
	tb.Helper()
	var s *string
	err := conn.QueryRow(bounded(tb, 20*time.Second), "SELECT ("+sql+")::text", args...).Scan(&s)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		tb.Fatal(err)
	}
	return value(s)
}

func (d *database) state(name, date string) string {
	d.Helper()
	return d.text("SELECT state FROM lockrun.run WHERE name = $1 AND run_date = $2", name, date)
}

func (d *database) outcome(runID string) string {
	d.Helper()
	return d.text("SELECT outcome FROM lockrun.attempt WHERE run_id = $1::uuid", runID)
}

func (d *database) live(name string) bool {
	d.Helper()
	return d.text("SELECT expires_at > clock_timestamp() FROM lockrun.lease WHERE name = $1", name) == "true"
}

func (d *database) expire(name string) {
	d.Helper()
	d.exec("UPDATE lockrun.lease SET expires_at = clock_timestamp() WHERE name = $1", name)
}

func request(name, date string) *guard.Request {
	return &guard.Request{
		Name: name, Date: date, RunID: uuid.NewString(), Holder: "holder of " + name, Host: "host-1", PID: os.Getpid(), OSUser: "batch",
		Command: []string{"/bin/job", "--all", "it's"}, Version: "test", TTL: testTTL,
	}
}

func again(r *guard.Request, rerun guard.Rerun) *guard.Request {
	next := *r
	next.RunID, next.Rerun = uuid.NewString(), rerun
	return &next
}

func acquire(tb testing.TB, s *Store, r *guard.Request) guard.Answer {
	tb.Helper()
	a, err := s.Acquire(bounded(tb, 20*time.Second), r)
	if err != nil {
		tb.Fatalf("acquire %s %s: %v", r.Name, r.Date, err)
	}
	if off := time.Since(a.At); off < -time.Minute || off > time.Minute {
		tb.Fatalf("acquire %s %s: the answer's clock says %v", r.Name, r.Date, a.At)
	}
	return a
}

func granted(tb testing.TB, s *Store, r *guard.Request) guard.Answer {
	tb.Helper()
	a := acquire(tb, s, r)
	if a.Verdict != guard.Granted || a.Token <= 0 || a.Attempt <= 0 {
		tb.Fatalf("acquire %s %s: %+v, want it granted", r.Name, r.Date, a)
	}
	return a
}

func finish(tb testing.TB, s *Store, r *guard.Request, o guard.Outcome) {
	tb.Helper()
	code := 0
	if o != guard.OutcomeSucceeded {
		code = 3
	}
	e := &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: o, ExitCode: &code}
	if err := s.Finish(bounded(tb, 10*time.Second), e); err != nil {
		tb.Fatal(err)
	}
}

// eventually polls until done says so.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within 20 s: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func wantUnavailable(tb testing.TB, err error, taken bool, contains ...string) {
	tb.Helper()
	var away *locks.UnavailableError
	if !errors.As(err, &away) {
		tb.Fatalf("got error %v, want an UnavailableError", err)
	}
	if away.Taken != taken {
		tb.Errorf("error %q: Taken = %v, want %v", err, away.Taken, taken)
	}
	wantText(tb, err, contains...)
}

func wantSetup(tb testing.TB, err error, next string, contains ...string) {
	tb.Helper()
	var setup *locks.SetupError
	if !errors.As(err, &setup) {
		tb.Fatalf("got error %v, want a SetupError", err)
	}
	if !strings.Contains(setup.Next, next) {
		tb.Errorf("error %q: Next = %q, want %q in it", err, setup.Next, next)
	}
	wantText(tb, err, contains...)
}

func wantText(tb testing.TB, err error, contains ...string) {
	tb.Helper()
	if strings.ContainsAny(err.Error(), "\n\t") {
		tb.Errorf("error %q has more than one line", err)
	}
	for _, s := range contains {
		if !strings.Contains(err.Error(), s) {
			tb.Errorf("error %q does not say %q", err, s)
		}
	}
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}
