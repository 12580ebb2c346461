package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lockrun/guard"
)

// Ledger is the [guard.Ledger] of a Postgres database. It is for commands of
// people: each call is a transaction of several round trips.
type Ledger struct {
	cfg         *Config
	conn        *pgx.Conn
	unconfirmed bool // as in [Store]
}

var _ guard.Ledger = (*Ledger)(nil)

// NewLedger returns a ledger that has not connected yet.
func NewLedger(cfg *Config) *Ledger { return &Ledger{cfg: cfg} }

// Close implements [guard.Ledger].
func (l *Ledger) Close() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}

// Times are read as microseconds since 1970, as refusal.sql does it, and within
// the years that a time.Time and RFC 3339 have, but for the first day: it begins
// with Go's zero time, which means that there is none.
func micros(column string) string {
	return fmt.Sprintf("CASE WHEN %[1]s IS NOT NULL THEN (extract(epoch FROM least(greatest(%[1]s, '0001-01-02 00:00:00+00'), '9999-12-31 00:00:00+00')) * 1000000)::bigint END", column)
}

var (
	selectLeases = `SELECT name, run_id::text, token, holder, pid, ` + micros("acquired_at") + `, ` + micros("renewed_at") + `, ` + micros("expires_at") + `,
       EXISTS (SELECT 1 FROM lockrun.attempt a WHERE a.run_id = l.run_id AND a.ended_at IS NOT NULL)
  FROM lockrun.lease l WHERE $1::text IS NULL OR name = $1::text`
	selectRuns = `SELECT name, run_date, state, run_id::text, attempt, ` + micros("started_at") + `, ` + micros("ended_at") + `,
       exit_code, coalesce(signal, ''), coalesce(reason, '')
  FROM lockrun.run r WHERE ($1::text IS NULL OR name = $1::text)`
	selectAttempts = `SELECT run_id::text, name, coalesce(run_date, ''), attempt, token, holder, host, pid, os_user,
       ARRAY(SELECT coalesce(word, '') FROM unnest(command) word), ` + micros("started_at") + `, ` + micros("ended_at") + `,
       outcome, exit_code, coalesce(signal, ''), coalesce(reason, ''), version
  FROM lockrun.attempt a WHERE ($1::text IS NULL OR name = $1::text)`
)

const (
	// In the C collation because dates compare byte by byte.
	latestRuns = ` AND (state = 'running' OR run_date =
  (SELECT m.run_date FROM lockrun.run m WHERE m.name = r.name ORDER BY m.run_date COLLATE "C" DESC LIMIT 1))`
	attemptsOfThose = ` AND (run_id IN (SELECT run_id FROM lockrun.lease WHERE $1::text IS NULL OR name = $1::text)
  OR run_id IN (SELECT run_id FROM lockrun.run r WHERE ($1::text IS NULL OR name = $1::text)` + latestRuns + `))`
)

// Latest implements [guard.Ledger].
func (l *Ledger) Latest(ctx context.Context, name string) (*guard.Rows, error) {
	return l.read(ctx, name, selectLeases, selectRuns+latestRuns, selectAttempts+attemptsOfThose)
}

// All implements [guard.Ledger].
func (l *Ledger) All(ctx context.Context, name string) (*guard.Rows, error) {
	return l.read(ctx, name, selectLeases, selectRuns, selectAttempts)
}

func (l *Ledger) read(ctx context.Context, name, leases, runs, attempts string) (*guard.Rows, error) {
	var found guard.Rows
	err := l.within(ctx, toRead, func(tx pgx.Tx) (err error) {
		var at int64
		if err := tx.QueryRow(ctx, "SELECT "+micros("clock_timestamp()")).Scan(&at); err != nil {
			return err
		}
		found.At = time.UnixMicro(at)
		if found.Leases, err = collect(ctx, tx, scanLease, leases, text(name)); err != nil {
			return err
		}
		if found.Runs, err = collect(ctx, tx, scanRun, runs, text(name)); err != nil {
			return err
		}
		found.Attempts, err = collect(ctx, tx, scanAttempt, attempts, text(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// within runs do in a transaction on a schema of this program's version.
func (l *Ledger) within(ctx context.Context, o pgx.TxOptions, do func(pgx.Tx) error) (err error) {
	if l.conn == nil || l.conn.IsClosed() {
		notice := func(_ *pgconn.PgConn, n *pgconn.Notice) { l.unconfirmed = l.unconfirmed || unconfirmedBy(n) }
		if l.conn, err = l.cfg.dial(ctx, notice); err != nil {
			l.conn = nil
			return l.cfg.Fault(err)
		}
	}
	err = pgx.BeginTxFunc(ctx, l.conn, o, func(tx pgx.Tx) error {
		var rows int64
		var version *int32
		if err := tx.QueryRow(ctx, readVersion).Scan(&rows, &version); err != nil {
			return err
		}
		if err := l.cfg.schemaFault(rows, version, guard.SchemaVersion); err != nil {
			return err
		}
		return do(tx)
	})
	if guard.Refused(err) {
		return err
	}
	return l.cfg.Fault(err)
}

func collect[T any](ctx context.Context, tx pgx.Tx, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func scanLease(row pgx.CollectableRow) (guard.Lease, error) {
	var r guard.Lease
	var acquired, renewed, expires *int64
	err := row.Scan(&r.Name, &r.RunID, &r.Token, &r.Holder, &r.PID, &acquired, &renewed, &expires, &r.Ended)
	r.AcquiredAt, r.RenewedAt, r.ExpiresAt = instant(acquired), instant(renewed), instant(expires)
	return r, err
}

func scanRun(row pgx.CollectableRow) (guard.Run, error) {
	var r guard.Run
	var started, ended *int64
	err := row.Scan(&r.Name, &r.Date, &r.State, &r.RunID, &r.Attempt, &started, &ended, &r.ExitCode, &r.Signal, &r.Reason)
	r.StartedAt, r.EndedAt = instant(started), instant(ended)
	return r, err
}

func scanAttempt(row pgx.CollectableRow) (guard.Attempt, error) {
	var r guard.Attempt
	var started, ended *int64
	err := row.Scan(&r.RunID, &r.Name, &r.Date, &r.Attempt, &r.Token, &r.Holder, &r.Host, &r.PID, &r.OSUser, &r.Command,
		&started, &ended, &r.Outcome, &r.ExitCode, &r.Signal, &r.Reason, &r.Version)
	r.StartedAt, r.EndedAt = instant(started), instant(ended)
	return r, err
}
