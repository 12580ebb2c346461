package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks"
)

// changeLock is how long a change waits for a row that somebody else keeps
// locked.
const changeLock = "5s"

// change runs do in a durable transaction.
func (l *Ledger) change(ctx context.Context, do func(tx pgx.Tx, login string) error) error {
	l.unconfirmed = false
	committing := false
	err := l.within(ctx, toChange, func(tx pgx.Tx) error {
		var login string
		err := tx.QueryRow(ctx, durableWithin+", session_user", changeLock).Scan(nil, nil, nil, nil, &login)
		if err != nil {
			return err
		}
		err = do(tx, login)
		committing = err == nil
		return err
	})
	if err == nil && l.unconfirmed {
		err = l.cfg.Fault(errUnconfirmed)
	}
	var away *locks.UnavailableError
	// Before the commit is sent, whatever breaks undoes the transaction.
	if errors.As(err, &away) && committing && classify(away) == unknown {
		away.Taken = true
		away.Next = "it may have been done all the same: see \"lockrun status\""
	}
	return err
}

// audited runs statements and appends what they made of the row that selectRow
// gives as JSON.
func audited(ctx context.Context, tx pgx.Tx, selectRow string, args pgx.NamedArgs, statements ...string) (*guard.Audit, error) {
	var before string
	if err := tx.QueryRow(ctx, selectRow, args).Scan(&before); err != nil {
		return nil, err
	}
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql, args); err != nil {
			return nil, err
		}
	}
	args["before"] = before
	return appended(ctx, tx, selectRow, args)
}

// appended appends a row to the audit; after is SQL for what there is now.
func appended(ctx context.Context, tx pgx.Tx, after string, args pgx.NamedArgs) (*guard.Audit, error) {
	a, at := &guard.Audit{}, new(int64)
	err := tx.QueryRow(ctx, fmt.Sprintf(appendAudit, after), args).
		Scan(at, &a.Actor, &a.Action, &a.Name, &a.Date, &a.Reason, &a.Before, &a.After)
	a.At = instant(at)
	return a, err
}

// withLogin adds the database's own name for who is asking.
func withLogin(actor, login string) string {
	return clean(actor) + " (database role " + login + ")"
}

// lockedLease reads the lease row of a name and keeps it: what renews, takes
// over, or ends it waits. nil = there is none. The clock is read with the row
// in hand.
func lockedLease(ctx context.Context, tx pgx.Tx, name string) (lease *guard.Lease, now time.Time, err error) {
	if _, err := tx.Exec(ctx, lockName, pgx.NamedArgs{"name": name}); err != nil {
		return nil, now, err
	}
	found, err := collect(ctx, tx, scanLease, selectLeases, name)
	if err != nil {
		return nil, now, err
	}
	var at int64
	if err := tx.QueryRow(ctx, "SELECT "+micros("clock_timestamp()")).Scan(&at); err != nil {
		return nil, now, err
	}
	if len(found) > 0 {
		lease = &found[0]
	}
	return lease, time.UnixMicro(at), nil
}

const (
	settleRun = `
UPDATE lockrun.run SET state = @state::text, ended_at = coalesce(ended_at, clock_timestamp()), reason = @reason::text
 WHERE name = @name::text AND run_date = @date::text`
	openDate = `DELETE FROM lockrun.run WHERE name = @name::text AND run_date = @date::text`
	// The attempt keeps what is known of its end; that it was unknown is a part of that.
	noteOnAttempt = `
UPDATE lockrun.attempt
   SET outcome = CASE outcome WHEN 'running' THEN 'unknown' ELSE outcome END, reason = concat_ws('; ', reason, @words::text)
 WHERE run_id = @run_id::uuid`
	selectRunAsJSON   = `SELECT to_jsonb(r) FROM lockrun.run r WHERE name = @name::text AND run_date = @date::text`
	selectLeaseAsJSON = `SELECT to_jsonb(l) FROM lockrun.lease l WHERE name = @name::text`
)

var appendAudit = `
INSERT INTO lockrun.audit (actor, action, name, run_date, reason, before, after)
VALUES (@actor::text, @action::text, @name::text, @date::text, @reason::text, @before::text::jsonb, (%s))
RETURNING ` + micros("at") + `, actor, action, name, coalesce(run_date, ''), reason, coalesce(before::text, ''), coalesce(after::text, '')`

// Resolve implements [guard.Ledger]. It takes the rows in the order lease, run,
// attempt, as a run does.
func (l *Ledger) Resolve(ctx context.Context, r *guard.Resolution) (before guard.Run, audit *guard.Audit, err error) {
	err = l.change(ctx, func(tx pgx.Tx, login string) error {
		lease, now, err := lockedLease(ctx, tx, r.Name)
		if err != nil {
			return err
		}
		found, err := collect(ctx, tx, scanRun, selectRuns+" AND run_date = $2::text FOR UPDATE", r.Name, r.Date)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return guard.ErrNotFound
		}
		before = found[0]
		switch {
		case lease != nil && lease.RunID == before.RunID && lease.Live(now):
			return lease.HeldError()
		case before.State == guard.Succeeded:
			return &guard.SettledError{Run: before}
		}
		actor := withLogin(r.Actor, login)
		args := pgx.NamedArgs{
			"name": r.Name, "date": r.Date, "state": string(r.As), "reason": clean(r.Reason), "run_id": before.RunID,
			"words": clean(r.Words(actor)), "actor": actor, "action": "resolve",
		}
		settle := settleRun
		if r.As == guard.AsRerun {
			settle = openDate
		}
		audit, err = audited(ctx, tx, selectRunAsJSON, args, settle, noteOnAttempt)
		return err
	})
	return before, audit, err
}

const evict = `
UPDATE lockrun.lease
   SET expires_at = clock_timestamp(), renewed_at = least(renewed_at, clock_timestamp()), acquired_at = least(acquired_at, clock_timestamp())
 WHERE name = @name::text`

// Release implements [guard.Ledger]. It changes no key of the row, so that an
// open fence does not hold it up; the next holder still waits for that.
func (l *Ledger) Release(ctx context.Context, e *guard.Eviction) (was guard.Lease, audit *guard.Audit, err error) {
	err = l.change(ctx, func(tx pgx.Tx, login string) error {
		lease, now, err := lockedLease(ctx, tx, e.Name)
		switch {
		case err != nil:
			return err
		case lease == nil:
			return guard.ErrNotFound
		}
		was = *lease
		switch {
		case !lease.Live(now):
			return nil
		case !e.Force && !lease.Releasable(now):
			return lease.HeldError()
		}
		args := pgx.NamedArgs{
			"name": e.Name, "date": nil, "reason": clean(e.Reason), "actor": withLogin(e.Actor, login), "action": "release",
		}
		audit, err = audited(ctx, tx, selectLeaseAsJSON, args, evict)
		return err
	})
	return was, audit, err
}

// Note implements [guard.Ledger].
func (l *Ledger) Note(ctx context.Context, a *guard.Audit) (noted *guard.Audit, err error) {
	err = l.change(ctx, func(tx pgx.Tx, login string) (err error) {
		noted, err = appended(ctx, tx, "@after::text::jsonb", pgx.NamedArgs{
			"actor": withLogin(a.Actor, login), "action": a.Action, "name": a.Name, "date": text(a.Date), "reason": clean(a.Reason),
			"before": text(a.Before), "after": text(a.After),
		})
		return err
	})
	return noted, err
}
