package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"lockrun/guard"
	"lockrun/locks"
)

// Renew implements [guard.Store].
func (s *Store) Renew(ctx context.Context, r *guard.Request) error {
	return s.transact(ctx, func(t *transaction) error {
		kept, err := t.exec(`UPDATE lease SET renewed_at = ?, expires_at = ? WHERE name = ? AND run_id = ? AND expires_at > ?`,
			text(t.now), text(t.now.Add(r.TTL)), r.Name, r.RunID, text(t.now))
		if err == nil && kept == 0 {
			err = fmt.Errorf("lease of %q: %w", r.Name, locks.ErrLost)
		}
		return err
	})
}

// Finish implements [guard.Store]. A database that knows nothing of the run is
// an error: the outcome would be lost without a word.
func (s *Store) Finish(ctx context.Context, e *guard.End) error {
	return s.transact(ctx, func(t *transaction) error {
		if changed, err := t.finish(e); changed > 0 || err != nil {
			return err
		}
		outcome, err := t.outcome(e.RunID)
		if err == nil && outcome == "" {
			err = s.setup(&guard.NoRunError{Why: "has no record of run " + e.RunID}, "find out who removed or replaced it")
		}
		return err
	})
}

// finish tells how many attempts it has ended: one, unless that one had ended.
func (t *transaction) finish(e *guard.End) (int64, error) {
	args := []any{
		sql.Named("name", e.Name), sql.Named("date", e.Date), sql.Named("run_id", e.RunID),
		sql.Named("state", string(e.Outcome.State())), sql.Named("outcome", string(e.Outcome)), sql.Named("exit_code", e.ExitCode),
		sql.Named("signal", orNull(e.Signal)), sql.Named("reason", orNull(e.Reason)), sql.Named("now", text(t.now)),
		sql.Named("alive", e.KeepRunning),
	}
	if !e.KeepRunning {
		if err := t.endLease(e.Name, e.RunID, e); err != nil {
			return 0, err
		}
		if e.Date != "" && e.Outcome.State() != "" {
			_, err := t.exec(`
				UPDATE run SET state = :state, ended_at = max(started_at, :now), exit_code = :exit_code, signal = :signal, reason = :reason
				 WHERE name = :name AND run_date = :date AND run_id = :run_id AND state = 'running'`, args...)
			if err != nil {
				return 0, err
			}
		}
	}
	// A reason that is there already is a person's, who resolved the date meanwhile.
	return t.exec(`
		UPDATE attempt SET outcome = :outcome, exit_code = :exit_code, signal = :signal,
		       reason = coalesce(reason || '; ' || :reason, :reason, reason),
		       ended_at = CASE WHEN NOT :alive THEN max(started_at, :now) END
		 WHERE run_id = :run_id AND outcome IN ('running', 'unknown')`, args...)
}

// endLease ends the live lease of a run now or, when e says so, a while after
// it was acquired. It never gives life to one that is over.
func (t *transaction) endLease(name, runID string, e *guard.End) error {
	until := t.now
	if e != nil && e.AtLeast > 0 {
		lease, err := t.lease(name)
		if err != nil || lease == nil {
			return err
		}
		if least := lease.Since.Add(e.AtLeast); least.After(until) {
			until = least
		}
	}
	_, err := t.exec(`UPDATE lease SET expires_at = ? WHERE name = ? AND run_id = ? AND expires_at > ?`, text(until), name, runID, text(t.now))
	return err
}

// Undo implements [guard.Store].
func (s *Store) Undo(ctx context.Context, r *guard.Request, reason string) error {
	return s.transact(ctx, func(t *transaction) error {
		if err := t.putAttempt(r, 1, 0, guard.OutcomeNotStarted, reason); err != nil {
			return err
		}
		outcome, err := t.outcome(r.RunID)
		if err != nil || outcome != guard.OutcomeNotStarted {
			return err // it ended otherwise
		}
		if err := t.endLease(r.Name, r.RunID, nil); err != nil {
			return err
		}
		gone, err := t.exec(`DELETE FROM run WHERE name = ? AND run_date = ? AND run_id = ? AND state = 'running'`, r.Name, r.Date, r.RunID)
		if err != nil || gone == 0 {
			return err
		}
		return t.restoreDoor(r.Name, r.Date)
	})
}

// restoreDoor makes the guard row of a date anew after the undoing of a rerun:
// the door is to be as shut, or as open, as it was. That is what a person last
// made of it, unless another attempt has started since; else what the last
// attempt did, and one that has not ended provably is unknown.
func (t *transaction) restoreDoor(name, date string) error {
	_, err := t.exec(`
		WITH last AS (
		  SELECT * FROM attempt WHERE name = :name AND run_date = :date AND outcome <> 'not_started' ORDER BY attempt DESC LIMIT 1
		), decided AS (
		  SELECT d.after
		    FROM (SELECT * FROM audit WHERE action = 'resolve' AND name = :name AND run_date = :date ORDER BY rowid DESC LIMIT 1) d
		   WHERE NOT EXISTS (SELECT 1 FROM last l WHERE l.started_at >= d.at AND l.run_id <> d.before->>'run_id')
		)
		INSERT INTO run (name, run_date, state, run_id, attempt, started_at, ended_at, exit_code, signal, reason)
		SELECT :name, :date, after->>'state', after->>'run_id', after->>'attempt', after->>'started_at', after->>'ended_at',
		       after->>'exit_code', after->>'signal', after->>'reason'
		  FROM decided WHERE after IS NOT NULL
		UNION ALL
		SELECT name, run_date, CASE WHEN ended_at IS NULL THEN 'running' WHEN outcome = 'succeeded' THEN 'succeeded' ELSE 'failed' END,
		       run_id, attempt, started_at, ended_at, exit_code, signal, reason
		  FROM last WHERE NOT EXISTS (SELECT 1 FROM decided)`,
		sql.Named("name", name), sql.Named("date", date))
	return err
}
