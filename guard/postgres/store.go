// Package postgres keeps leases, guard rows and attempts in PostgreSQL.
//
// Each call is one transaction and one round trip (an acquire that took nothing
// asks why in another), and each decision is the server's, by the server's clock.
// There is no session state: no prepared statement, no advisory lock, no setting
// that outlives its transaction. So it works through a pooler that pools by
// transaction.
//
// An answer that does not come is the normal case, not the exception: the
// transaction may have been committed, or may be later. So each of them may be
// repeated for the same run id, and each may arrive after the next one.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lockrun/guard"
	"lockrun/locks"
)

// Store is the [guard.Store] on a Postgres database. It holds at most one
// connection, made by the first call that needs one.
type Store struct {
	cfg    *Config
	timing locks.Timing
	conn   *pgx.Conn
	// aborted is the last connection that was given up with a request under
	// way: pgx is sending a cancel request for it.
	aborted *pgx.Conn
	// unconfirmed is set by a notice during a commit.
	unconfirmed bool
}

var _ guard.Store = (*Store)(nil)

// New returns a store that has not connected yet.
func New(cfg *Config, t locks.Timing) *Store {
	return &Store{cfg: cfg.tuned(t), timing: t}
}

// notice looks for the warning that comes with a commit which no standby has
// confirmed.
func (s *Store) notice(_ *pgconn.PgConn, n *pgconn.Notice) {
	s.unconfirmed = s.unconfirmed || unconfirmedBy(n)
}

// unconfirmedBy tells whether a notice says that a commit was not confirmed; the
// commit itself reports success. The text is translated, the name of the routine
// is not.
func unconfirmedBy(n *pgconn.Notice) bool {
	return n.Routine == "SyncRepWaitForLSN" || strings.Contains(n.Message, "synchronous replication")
}

// cancelPatience is how long Close waits for a cancel request to be delivered. It
// has been under way since the call was given up; a server that hangs never
// takes it, and lockrun has promised to end soon after a signal.
const cancelPatience = 100 * time.Millisecond

// Close drops the connection. What was cancelled gets a moment to hear of it.
func (s *Store) Close() {
	if s.conn != nil {
		sayGoodbye(s.conn)
		s.conn = nil
	}
	if s.aborted != nil {
		select {
		case <-s.aborted.PgConn().CleanupDone():
		case <-time.After(cancelPatience):
		}
		s.aborted = nil
	}
}

// drop gives up the connection.
func (s *Store) drop() {
	if s.conn == nil {
		return
	}
	if s.conn.IsClosed() {
		s.aborted = s.conn
	} else {
		sayGoodbye(s.conn)
	}
	s.conn = nil
}

// sayGoodbye closes a connection as the server wants it. The bound is the
// socket's: one of a context would take a goroutine that watches it, and the end
// of each run some switches between threads.
func sayGoodbye(conn *pgx.Conn) {
	_ = conn.PgConn().Conn().SetDeadline(time.Now().Add(time.Second))
	_ = conn.Close(context.Background())
}

// Connect implements [guard.Store].
func (s *Store) Connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.Call)
	defer cancel()
	_ = s.connect(ctx)
}

// connect makes sure that there is a connection.
func (s *Store) connect(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	s.drop()
	conn, err := s.cfg.dial(ctx, s.notice)
	if err != nil {
		return err
	}
	s.conn = conn
	return nil
}

// transact runs what fill queues as one transaction in one round trip. With a
// nil error it is committed, durably; with any other error [classify] tells.
// What the queued functions have read counts only then.
//
// The explicit BEGIN keeps lockrun at READ COMMITTED whatever the default of
// server, database or role is: above it, each lost race is an error, and
// renewals and jobs could make each other fail.
func (s *Store) transact(ctx context.Context, lockTimeout time.Duration, fill func(*pgx.Batch)) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(durableWithin, fmt.Sprintf("%dms", max(lockTimeout.Milliseconds(), 1)))
	fill(b)
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the server answered COMMIT with %s", tag)
		}
		return nil
	})
	s.unconfirmed = false
	err := s.conn.SendBatch(ctx, b).Close()
	switch {
	case s.conn.IsClosed():
		s.drop()
	case err != nil && classify(err) == readOnly:
		s.drop() // the primary is another host by now, perhaps under the same name
	case s.conn.PgConn().TxStatus() != 'I':
		if _, failed := s.conn.Exec(ctx, "ROLLBACK"); failed != nil {
			s.drop()
		}
	}
	if err == nil && s.unconfirmed {
		return errUnconfirmed
	}
	return err
}

// once is transact for a call that tries once: within the call's bound, and
// again only if the connection that it found turned out to be dead.
func (s *Store) once(ctx context.Context, fill func(*pgx.Batch)) error {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.timing.Call)
	defer cancel()
	reused := s.conn != nil
	err := s.transact(ctx, s.timing.Call*3/4, fill)
	if err != nil && reused && s.conn == nil && ctx.Err() == nil {
		err = s.transact(ctx, s.timing.Call/2, fill)
	}
	return s.cfg.fault(err, time.Since(started))
}

// sqlState is the SQLSTATE in err, "" if there is none.
func sqlState(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// clean makes text that Postgres takes: it knows no NUL, and a UTF8 database no
// other encoding. Command lines may hold both.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// text is s cleaned, or NULL for "".
func text(s string) any {
	if s == "" {
		return nil
	}
	return clean(s)
}
