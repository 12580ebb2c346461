package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lockrun/guard"
	"lockrun/locks"
)

// lockLease is a statement of its own: an UPDATE that had to wait for the row
// would judge by a clock that it read before.
const (
	lockLease  = `SELECT 1 FROM lockrun.lease WHERE name = @name::text AND run_id = @run_id::uuid FOR NO KEY UPDATE`
	renewLease = `
UPDATE lockrun.lease
   SET renewed_at = clock_timestamp(), expires_at = clock_timestamp() + @ttl::interval
 WHERE name = @name::text AND run_id = @run_id::uuid AND expires_at > clock_timestamp()`
)

// Renew is the store's part of [guard.Store]. An expired lease is never revived.
func (s *Store) Renew(ctx context.Context, r *guard.Request) error {
	var renewed bool
	err := s.once(ctx, func(b *pgx.Batch) {
		b.Queue(lockLease, pgx.StrictNamedArgs{"name": r.Name, "run_id": r.RunID})
		b.Queue(renewLease, pgx.StrictNamedArgs{"name": r.Name, "run_id": r.RunID, "ttl": r.TTL}).
			Exec(func(tag pgconn.CommandTag) error {
				renewed = tag.RowsAffected() == 1
				return nil
			})
	})
	if err == nil && !renewed {
		return fmt.Errorf("the lease of %q expired or was taken over: %w", r.Name, locks.ErrLost)
	}
	return err
}

// The order lease, run, attempt is that of acquire.sql: in any other one the
// two would dead-lock when the lease is over already.
const (
	endLease = `
UPDATE lockrun.lease SET expires_at = clock_timestamp()
 WHERE name = @name::text AND run_id = @run_id::uuid AND expires_at > clock_timestamp()`
	endLeaseLater = `
UPDATE lockrun.lease SET expires_at = greatest(clock_timestamp(), acquired_at + @at_least::interval)
 WHERE name = @name::text AND run_id = @run_id::uuid AND expires_at > clock_timestamp()`
	endRun = `
UPDATE lockrun.run
   SET state = @state::text, ended_at = clock_timestamp(), exit_code = @exit_code::int, signal = @signal::text, reason = @reason::text
 WHERE name = @name::text AND run_date = @date::text AND run_id = @run_id::uuid AND state = 'running'`
	// A reason that is there already is a person's, who resolved the date meanwhile.
	endAttempt = `
UPDATE lockrun.attempt
   SET outcome = @outcome::text, ended_at = CASE WHEN @proved::bool THEN clock_timestamp() END, exit_code = @exit_code::int, signal = @signal::text,
       reason = coalesce(reason || '; ' || @reason::text, @reason::text, reason)
 WHERE run_id = @run_id::uuid AND outcome IN ('running', 'unknown')`
	attemptIsThere = `SELECT EXISTS (SELECT 1 FROM lockrun.attempt WHERE run_id = @run_id::uuid)`
)

// Finish is the store's part of [guard.Store]. A *[locks.SetupError] says that
// the attempt isn't there any more, as after the promotion of a standby that
// had not got it: then there is nothing that the end could be recorded in.
func (s *Store) Finish(ctx context.Context, e *guard.End) error {
	var exitCode any
	if e.ExitCode != nil {
		exitCode = *e.ExitCode
	}
	end := pgx.NamedArgs{
		"name": e.Name, "date": text(e.Date), "run_id": e.RunID, "state": string(e.Outcome.State()), "outcome": string(e.Outcome),
		"exit_code": exitCode, "signal": text(e.Signal), "reason": text(e.Reason), "at_least": e.AtLeast,
		"proved": !e.KeepRunning,
	}
	there := true
	err := s.once(ctx, func(b *pgx.Batch) {
		if !e.KeepRunning {
			if e.AtLeast > 0 {
				b.Queue(endLeaseLater, end)
			} else {
				b.Queue(endLease, end)
			}
			if e.Date != "" && e.Outcome.State() != "" {
				b.Queue(endRun, end)
			}
		}
		b.Queue(endAttempt, end).Exec(func(tag pgconn.CommandTag) error {
			there = tag.RowsAffected() == 1
			return nil
		})
	})
	if err == nil && !there { // or it has ended already, as it has for a repeated Finish
		err = s.once(ctx, func(b *pgx.Batch) {
			b.Queue(attemptIsThere, end).QueryRow(func(row pgx.Row) error { return row.Scan(&there) })
		})
	}
	if err == nil && !there {
		return &locks.SetupError{
			What: s.cfg.what(),
			Err:  &guard.NoRunError{Why: "the attempt is not in the database any more, so its end can't be recorded"},
			Next: "find out whether a standby was promoted that had not got it",
		}
	}
	return err
}

// The attempt stays as a tombstone, so that a copy of the acquire that arrives
// later finds this run to be over. Its primary key also makes the two wait for
// each other while neither sees the other's rows. The rest happens only to a run
// that had no end yet.
const (
	lockName  = `SELECT 1 FROM lockrun.lease WHERE name = @name::text FOR NO KEY UPDATE`
	tombstone = `
INSERT INTO lockrun.attempt AS a (run_id, name, run_date, attempt, token, holder, host, pid, os_user, command, started_at, ended_at, outcome, reason, version)
VALUES (@run_id::uuid, @name::text, @date::text, 1, 0, @holder::text, @host::text, @pid::int, @os_user::text, @command::text[],
        clock_timestamp(), clock_timestamp(), 'not_started', @reason::text, @version::text)
ON CONFLICT (run_id) DO UPDATE
   SET outcome = 'not_started', ended_at = clock_timestamp(),
       reason = coalesce(a.reason || '; ' || EXCLUDED.reason, EXCLUDED.reason, a.reason)
 WHERE a.outcome IN ('running', 'unknown')`
	undone      = ` AND EXISTS (SELECT 1 FROM lockrun.attempt WHERE run_id = @run_id::uuid AND outcome = 'not_started')`
	endLeaseNow = endLease + undone
	// A rerun that never started leaves the door as shut, or as open, as it was. That is what a person last made of it,
	// unless another attempt has started since; else what the last attempt did.
	restoreDate = `
WITH last AS (
  SELECT * FROM lockrun.attempt WHERE name = @name::text AND run_date = @date::text AND outcome <> 'not_started'
   ORDER BY attempt DESC, started_at DESC LIMIT 1
), decided AS (
  SELECT d.after
    FROM (SELECT * FROM lockrun.audit WHERE action = 'resolve' AND name = @name::text AND run_date = @date::text
           ORDER BY at DESC LIMIT 1) d
   WHERE NOT EXISTS (SELECT 1 FROM last l WHERE l.started_at >= d.at AND l.run_id::text <> d.before->>'run_id')
), door AS (
  SELECT (jsonb_populate_record(NULL::lockrun.run, after)).* FROM decided WHERE after IS NOT NULL
  UNION ALL
  SELECT name, run_date, CASE WHEN ended_at IS NULL THEN 'running' WHEN outcome = 'succeeded' THEN 'succeeded'
                              WHEN outcome IN ('failed', 'lost', 'timeout') THEN 'failed' ELSE 'running' END,
         run_id, attempt, started_at, ended_at, exit_code, signal, reason
    FROM last WHERE NOT EXISTS (SELECT 1 FROM decided)
)
UPDATE lockrun.run r
   SET state = p.state, run_id = p.run_id, attempt = p.attempt, started_at = p.started_at, ended_at = p.ended_at,
       exit_code = p.exit_code, signal = p.signal, reason = p.reason
  FROM door p
 WHERE r.name = @name::text AND r.run_date = @date::text AND r.run_id = @run_id::uuid AND r.state = 'running'` + undone
	freeDate = `
DELETE FROM lockrun.run
 WHERE name = @name::text AND run_date = @date::text AND run_id = @run_id::uuid AND state = 'running'` + undone
)

// Undo is the store's part of [guard.Store].
func (s *Store) Undo(ctx context.Context, r *guard.Request, why string) error {
	args := requestArgs(r)
	args["reason"] = text(why)
	return s.once(ctx, func(b *pgx.Batch) {
		b.Queue(lockName, args)
		b.Queue(tombstone, args)
		b.Queue(endLeaseNow, args)
		b.Queue(restoreDate, args)
		b.Queue(freeDate, args)
	})
}

// requestArgs are the parameters that acquire and undo share.
func requestArgs(r *guard.Request) pgx.NamedArgs {
	command := make([]string, len(r.Command))
	for i, arg := range r.Command {
		command[i] = clean(arg)
	}
	return pgx.NamedArgs{
		"name": r.Name, "date": text(r.Date), "run_id": r.RunID, "holder": clean(r.Holder), "host": clean(r.Host),
		"pid": r.PID, "os_user": clean(r.OSUser), "command": command, "version": clean(r.Version),
	}
}
