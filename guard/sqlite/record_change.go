package sqlite

import (
	"context"
	"database/sql"

	"lockrun/guard"
)

const (
	runAsJSON = `SELECT json_object('name', name, 'run_date', run_date, 'state', state, 'run_id', run_id, 'attempt', attempt,
       'started_at', started_at, 'ended_at', ended_at, 'exit_code', exit_code, 'signal', signal, 'reason', reason)
  FROM run WHERE name = :name AND run_date = :date`
	leaseAsJSON = `SELECT json_object('name', name, 'run_id', run_id, 'token', token, 'holder', holder, 'pid', pid,
       'acquired_at', acquired_at, 'renewed_at', renewed_at, 'expires_at', expires_at)
  FROM lease WHERE name = :name`
	settleRun = `UPDATE run SET state = :state, ended_at = coalesce(ended_at, max(started_at, :now)), reason = :reason
 WHERE name = :name AND run_date = :date`
	openDate = `DELETE FROM run WHERE name = :name AND run_date = :date`
	// The attempt keeps what is known of its end; that it was unknown is a part of that.
	noteOnAttempt = `UPDATE attempt SET outcome = CASE outcome WHEN 'running' THEN 'unknown' ELSE outcome END,
       reason = coalesce(reason || '; ', '') || :words
 WHERE run_id = :run_id`
	// Times that nobody can read are replaced: else no run could take the lease.
	evict = `UPDATE lease SET expires_at = :now, renewed_at = CASE WHEN renewed_at GLOB :time THEN min(renewed_at, :now) ELSE :now END,
       acquired_at = CASE WHEN acquired_at GLOB :time THEN min(acquired_at, :now) ELSE :now END
 WHERE name = :name`
	timeGlob = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]Z"
)

const selectAudit = `SELECT at, actor, action, name, coalesce(run_date, ''), reason, coalesce(before, ''), coalesce(after, '') FROM audit`

func scanAudit(columns row) (guard.Audit, error) {
	var a guard.Audit
	var at anyInstant
	err := columns.Scan(&at, &a.Actor, &a.Action, &a.Name, &a.Date, &a.Reason, &a.Before, &a.After)
	a.At = at.Time
	return a, err
}

// audited runs statements and appends what they made of the row that selectRow
// gives as JSON.
func (t *transaction) audited(selectRow string, args []any, statements ...string) (*guard.Audit, error) {
	var before string
	if err := t.row(selectRow, args...).Scan(&before); err != nil {
		return nil, err
	}
	for _, statement := range statements {
		if _, err := t.exec(statement, args...); err != nil {
			return nil, err
		}
	}
	return t.appended(selectRow, append(args, sql.Named("before", before))...)
}

// appended appends a row to the audit; after is SQL for what there is now.
func (t *transaction) appended(after string, args ...any) (*guard.Audit, error) {
	_, err := t.exec(`INSERT INTO audit (at, actor, action, name, run_date, reason, before, after)
VALUES (:now, :actor, :action, :name, :date, :reason, :before, (`+after+`))`, args...)
	if err != nil {
		return nil, err
	}
	a, err := scanAudit(t.row(selectAudit + ` WHERE rowid = last_insert_rowid()`))
	return &a, err
}

// Resolve implements [guard.Ledger].
func (l *Ledger) Resolve(ctx context.Context, r *guard.Resolution) (before guard.Run, audit *guard.Audit, err error) {
	err = l.store.transact(ctx, func(t *transaction) error {
		who := sql.Named("name", r.Name)
		leases, err := collect(t, scanLease, selectLeases, who)
		if err != nil {
			return err
		}
		found, err := collect(t, scanRun, selectRuns+" AND run_date = :date", who, sql.Named("date", r.Date))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return guard.ErrNotFound
		}
		before = found[0]
		switch {
		case len(leases) > 0 && leases[0].RunID == before.RunID && leases[0].Live(t.now):
			return leases[0].HeldError()
		case before.State == guard.Succeeded:
			return &guard.SettledError{Run: before}
		}
		args := []any{
			who, sql.Named("date", r.Date), sql.Named("state", string(r.As)), sql.Named("reason", r.Reason),
			sql.Named("run_id", before.RunID), sql.Named("words", r.Words(r.Actor)), sql.Named("actor", r.Actor),
			sql.Named("action", "resolve"), sql.Named("now", text(t.now)),
		}
		settle := settleRun
		if r.As == guard.AsRerun {
			settle = openDate
		}
		audit, err = t.audited(runAsJSON, args, settle, noteOnAttempt)
		return err
	})
	return before, audit, err
}

// Release implements [guard.Ledger].
func (l *Ledger) Release(ctx context.Context, e *guard.Eviction) (was guard.Lease, audit *guard.Audit, err error) {
	err = l.store.transact(ctx, func(t *transaction) error {
		leases, err := collect(t, scanLease, selectLeases, sql.Named("name", e.Name))
		if err != nil {
			return err
		}
		if len(leases) == 0 {
			return guard.ErrNotFound
		}
		was = leases[0]
		switch {
		case !was.Live(t.now) && !was.Absurd(t.now):
			return nil
		case !e.Force && !was.Releasable(t.now):
			return was.HeldError()
		}
		audit, err = t.audited(leaseAsJSON, []any{
			sql.Named("name", e.Name), sql.Named("date", orNull("")), sql.Named("reason", e.Reason), sql.Named("actor", e.Actor),
			sql.Named("action", "release"), sql.Named("now", text(t.now)), sql.Named("time", timeGlob),
		}, evict)
		return err
	})
	return was, audit, err
}

// Note implements [guard.Ledger].
func (l *Ledger) Note(ctx context.Context, a *guard.Audit) (noted *guard.Audit, err error) {
	err = l.store.transact(ctx, func(t *transaction) (err error) {
		noted, err = t.appended(":after", sql.Named("now", text(t.now)), sql.Named("actor", a.Actor), sql.Named("action", a.Action),
			sql.Named("name", a.Name), sql.Named("date", orNull(a.Date)), sql.Named("reason", a.Reason),
			sql.Named("before", orNull(a.Before)), sql.Named("after", orNull(a.After)))
		return err
	})
	return noted, err
}
