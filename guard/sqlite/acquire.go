package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"lockrun/guard"
	"lockrun/locks"
)

// Acquire implements [guard.Store].
func (s *Store) Acquire(ctx context.Context, r *guard.Request) (guard.Answer, error) {
	var a guard.Answer
	err := s.transact(ctx, func(t *transaction) (err error) {
		a, err = t.acquire(r)
		return err
	})
	if err != nil {
		return guard.Answer{}, err
	}
	return a, nil
}

func (t *transaction) acquire(r *guard.Request) (guard.Answer, error) {
	own, err := t.outcome(r.RunID)
	if err != nil {
		return guard.Answer{}, err
	}
	switch own {
	case "": // a copy of a grant is answered as the first was, whatever the clock says now
		if !r.Meant(t.now) {
			return guard.Answer{Verdict: guard.WrongDate, At: t.now, Meant: t.now.Add(-r.Since())}, nil
		}
	case guard.OutcomeRunning:
	default: // a late copy, after the end or the undoing of its run
		return guard.Answer{}, &locks.UnavailableError{What: "run " + r.RunID, Err: errors.New("it has already ended or been undone")}
	}
	lease, err := t.lease(r.Name)
	if err != nil {
		return guard.Answer{}, err
	}
	run, err := t.run(r.Name, r.Date)
	if err != nil {
		return guard.Answer{}, err
	}
	live := lease != nil && lease.Until.After(t.now)
	held := guard.Answer{Verdict: guard.Held, At: t.now}
	if live {
		held.Held = &locks.HeldError{Tier: "lease", By: *lease}
		if held.Held.Ended, err = t.hasEnded(lease.RunID); err != nil {
			return guard.Answer{}, err
		}
	}
	prior := run
	if run != nil && run.RunID == r.RunID {
		prior = nil
	}
	switch v := guard.Decide(prior, prior != nil && live && lease.RunID == prior.RunID, r.Rerun); v {
	case guard.Granted:
	case guard.Held:
		return held, nil
	case guard.IsUnknown:
		return guard.Answer{Verdict: v, At: t.now, Prior: prior}, t.markUnknown(prior.RunID)
	default:
		return guard.Answer{Verdict: v, At: t.now, Prior: prior}, nil
	}
	if live && lease.RunID != r.RunID {
		return held, nil
	}
	return t.take(r, prior)
}

// take writes the three rows; prior is another run's guard row, or nil.
func (t *transaction) take(r *guard.Request, prior *guard.Run) (guard.Answer, error) {
	a := guard.Answer{Verdict: guard.Granted, At: t.now, Attempt: 1}
	now := text(t.now)
	err := t.row(`
		INSERT INTO lease (name, run_id, token, holder, pid, acquired_at, renewed_at, expires_at)
		VALUES (:name, :run_id, 1, :holder, :pid, :now, :now, :until)
		ON CONFLICT (name) DO UPDATE
		   SET token = lease.token + (lease.run_id <> excluded.run_id), run_id = excluded.run_id,
		       holder = excluded.holder, pid = excluded.pid,
		       acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at, expires_at = excluded.expires_at
		RETURNING token`,
		sql.Named("name", r.Name), sql.Named("run_id", r.RunID), sql.Named("holder", r.Holder), sql.Named("pid", r.PID),
		sql.Named("now", now), sql.Named("until", text(t.now.Add(r.TTL)))).Scan(&a.Token)
	if err != nil {
		return guard.Answer{}, err
	}
	if r.Date != "" {
		err := t.row(`
			INSERT INTO run (name, run_date, state, run_id, attempt, started_at)
			VALUES (:name, :date, 'running', :run_id,
			        1 + (SELECT coalesce(max(attempt), 0) FROM attempt
			              WHERE name = :name AND run_date = :date AND outcome <> 'not_started'), :now)
			ON CONFLICT (name, run_date) DO UPDATE
			   SET attempt = CASE run.run_id WHEN excluded.run_id THEN run.attempt ELSE max(run.attempt + 1, excluded.attempt) END,
			       state = 'running', run_id = excluded.run_id, started_at = excluded.started_at,
			       ended_at = NULL, exit_code = NULL, signal = NULL, reason = NULL
			RETURNING attempt`,
			sql.Named("name", r.Name), sql.Named("date", r.Date), sql.Named("run_id", r.RunID), sql.Named("now", now)).Scan(&a.Attempt)
		if err != nil {
			return guard.Answer{}, err
		}
	}
	if prior != nil {
		if err := t.markUnknown(prior.RunID); err != nil {
			return guard.Answer{}, err
		}
	}
	err = t.putAttempt(r, a.Attempt, a.Token, guard.OutcomeRunning, "")
	return a, err
}

// markUnknown says that the attempt's lease ended without a word.
func (t *transaction) markUnknown(runID string) error {
	_, err := t.exec(`UPDATE attempt SET outcome = 'unknown' WHERE run_id = ? AND outcome = 'running'`, runID)
	return err
}

// putAttempt writes a new attempt; one that is there gets the token and, when
// it was never started, that outcome, unless it has ended otherwise.
func (t *transaction) putAttempt(r *guard.Request, attempt int, token int64, outcome guard.Outcome, reason string) error {
	command, err := arguments(r.Command)
	if err != nil {
		return err
	}
	_, err = t.exec(`
		INSERT INTO attempt (run_id, name, run_date, attempt, token, holder, host, pid, os_user, command, started_at, ended_at, outcome, reason, version)
		VALUES (:run_id, :name, :date, :attempt, :token, :holder, :host, :pid, :os_user, :command, :now,
		        CASE :outcome WHEN 'not_started' THEN :now END, :outcome, :reason, :version)
		ON CONFLICT (run_id) DO UPDATE
		   SET token = max(attempt.token, excluded.token), outcome = excluded.outcome,
		       reason = coalesce(attempt.reason || '; ' || excluded.reason, excluded.reason, attempt.reason),
		       ended_at = max(attempt.started_at, excluded.ended_at)
		 WHERE attempt.outcome = 'running' OR attempt.outcome = 'unknown' AND excluded.outcome = 'not_started'`,
		sql.Named("run_id", r.RunID), sql.Named("name", r.Name), sql.Named("date", orNull(r.Date)), sql.Named("attempt", attempt),
		sql.Named("token", token), sql.Named("holder", r.Holder), sql.Named("host", r.Host), sql.Named("pid", r.PID),
		sql.Named("os_user", r.OSUser), sql.Named("command", command), sql.Named("now", text(t.now)),
		sql.Named("outcome", string(outcome)), sql.Named("reason", orNull(reason)), sql.Named("version", r.Version))
	return err
}
