package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// Ledger is the [guard.Ledger] of a state directory.
type Ledger struct{ store *Store }

var _ guard.Ledger = (*Ledger)(nil)

// ledgerPatience is how long people wait for a run that writes.
const ledgerPatience = 10 * time.Second

// NewLedger returns a ledger of the database in stateDir. A database that is not
// there is an error, and is not made.
func NewLedger(stateDir string) *Ledger {
	s := New(stateDir, locks.Timing{TTL: ledgerPatience})
	s.mustExist = true
	return &Ledger{s}
}

// Close implements [guard.Ledger].
func (l *Ledger) Close() { l.store.Close() }

const (
	selectLeases = `SELECT name, run_id, token, holder, pid, acquired_at, renewed_at, expires_at,
       EXISTS (SELECT 1 FROM attempt a WHERE a.run_id = lease.run_id AND a.ended_at IS NOT NULL)
  FROM lease WHERE (:name IS NULL OR name = :name)`
	selectRuns = `SELECT name, run_date, state, run_id, attempt, started_at, ended_at, exit_code, coalesce(signal, ''), coalesce(reason, '')
  FROM run WHERE (:name IS NULL OR name = :name)`
	selectAttempts = `SELECT run_id, name, coalesce(run_date, ''), attempt, token, holder, host, pid, os_user, command,
       started_at, ended_at, outcome, exit_code, coalesce(signal, ''), coalesce(reason, ''), version
  FROM attempt WHERE (:name IS NULL OR name = :name)`
	latestRuns      = ` AND (state = 'running' OR run_date = (SELECT max(m.run_date) FROM run m WHERE m.name = run.name))`
	attemptsOfThose = ` AND (run_id IN (SELECT run_id FROM lease) OR run_id IN (SELECT run_id FROM run WHERE true` + latestRuns + `))`
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
	err := l.store.transact(ctx, func(t *transaction) (err error) {
		found = guard.Rows{At: t.now}
		who := sql.Named("name", orNull(name))
		if found.Leases, err = collect(t, scanLease, leases, who); err != nil {
			return err
		}
		if found.Runs, err = collect(t, scanRun, runs, who); err != nil {
			return err
		}
		found.Attempts, err = collect(t, scanAttempt, attempts, who)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &found, nil
}

func collect[T any](t *transaction, scan func(row) (T, error), query string, args ...any) (list []T, err error) {
	err = t.conn.query(func(r row) error {
		one, err := scan(r)
		list = append(list, one)
		return errors.Join(err, t.ctx.Err())
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// anyInstant is an [instant] that reads whatever somebody may have written by
// hand: what is no time is zero.
type anyInstant struct{ time.Time }

// Scan implements [sql.Scanner].
func (i *anyInstant) Scan(column any) error {
	text, _ := column.(string)
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		t = time.Time{}
	}
	i.Time = t.UTC()
	return nil
}

func scanLease(columns row) (guard.Lease, error) {
	var r guard.Lease
	var acquired, renewed, expires anyInstant
	err := columns.Scan(&r.Name, &r.RunID, &r.Token, &r.Holder, &r.PID, &acquired, &renewed, &expires, &r.Ended)
	r.AcquiredAt, r.RenewedAt, r.ExpiresAt = acquired.Time, renewed.Time, expires.Time
	return r, err
}

func scanRun(columns row) (guard.Run, error) {
	var r guard.Run
	var started, ended anyInstant
	err := columns.Scan(&r.Name, &r.Date, &r.State, &r.RunID, &r.Attempt, &started, &ended, &r.ExitCode, &r.Signal, &r.Reason)
	r.StartedAt, r.EndedAt = started.Time, ended.Time
	return r, err
}

func scanAttempt(columns row) (guard.Attempt, error) {
	var r guard.Attempt
	var command string
	var started, ended anyInstant
	err := columns.Scan(&r.RunID, &r.Name, &r.Date, &r.Attempt, &r.Token, &r.Holder, &r.Host, &r.PID, &r.OSUser, &command,
		&started, &ended, &r.Outcome, &r.ExitCode, &r.Signal, &r.Reason, &r.Version)
	if json.Unmarshal([]byte(command), &r.Command) != nil {
		r.Command = []string{command} // edited by hand
	}
	r.StartedAt, r.EndedAt = started.Time, ended.Time
	return r, err
}
