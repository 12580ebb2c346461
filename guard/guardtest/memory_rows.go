package guardtest

import (
	"slices"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// The methods of this file are called with the mutex held.

func (m *Memory) acquire(r *guard.Request, now time.Time) (guard.Answer, error) {
	own, lease := m.attempt(r.RunID), m.leases[r.Name]
	if own != nil && own.Outcome != guard.OutcomeRunning {
		return guard.Answer{}, errOver(r.RunID)
	}
	live := lease != nil && lease.ExpiresAt.After(now)
	if own == nil && !r.Meant(now) {
		return guard.Answer{Verdict: guard.WrongDate, At: now, Meant: now.Add(-r.Since())}, nil
	}
	run := m.runs[[2]string{r.Name, r.Date}]
	prior := run
	if run != nil && run.RunID == r.RunID {
		prior = nil
	}
	switch v := guard.Decide(prior, prior != nil && live && lease.RunID == prior.RunID, r.Rerun); v {
	case guard.Granted:
	case guard.Held:
		return m.held(lease, now), nil
	default:
		if v == guard.IsUnknown {
			m.markUnknown(prior.RunID)
		}
		return guard.Answer{Verdict: v, At: now, Prior: m.row(prior)}, nil
	}
	if live && lease.RunID != r.RunID {
		return m.held(lease, now), nil
	}

	token, attempt := int64(1), 1
	if lease != nil {
		token = lease.Token
		if lease.RunID != r.RunID {
			token++
		}
	}
	m.leases[r.Name] = &Lease{
		Name: r.Name, RunID: r.RunID, Token: token, Holder: r.Holder, PID: r.PID,
		AcquiredAt: now, RenewedAt: now, ExpiresAt: now.Add(r.TTL),
	}
	if r.Date != "" {
		if run != nil && prior == nil {
			attempt = run.Attempt
		} else {
			attempt = m.startedAttempts(r.Name, r.Date) + 1
			m.runs[[2]string{r.Name, r.Date}] = &guard.Run{
				Name: r.Name, Date: r.Date, State: guard.Running, RunID: r.RunID, Attempt: attempt, StartedAt: now,
			}
		}
	}
	if prior != nil {
		m.markUnknown(prior.RunID)
	}
	if own != nil {
		own.Token = token
	} else {
		a := newAttempt(r, now)
		a.Attempt, a.Token, a.Outcome = attempt, token, guard.OutcomeRunning
		m.attempts = append(m.attempts, a)
	}
	return guard.Answer{Verdict: guard.Granted, At: now, Token: token, Attempt: attempt}, nil
}

func (m *Memory) finish(e *guard.End, now time.Time) {
	if l := m.leases[e.Name]; l != nil && l.RunID == e.RunID && l.ExpiresAt.After(now) && !e.KeepRunning {
		l.ExpiresAt = now
		if until := l.AcquiredAt.Add(e.AtLeast); until.After(now) {
			l.ExpiresAt = until
		}
	}
	state := e.Outcome.State()
	if r := m.runs[[2]string{e.Name, e.Date}]; r != nil && r.RunID == e.RunID && r.State == guard.Running &&
		state != "" && !e.KeepRunning {
		r.State, r.EndedAt, r.ExitCode, r.Signal, r.Reason = state, now, e.ExitCode, e.Signal, e.Reason
	}
	if a := m.attempt(e.RunID); open(a) {
		a.Outcome, a.ExitCode, a.Signal, a.Reason = e.Outcome, e.ExitCode, e.Signal, e.Reason
		if !e.KeepRunning {
			a.EndedAt = now
		}
	}
}

func (m *Memory) undo(r *guard.Request, reason string, now time.Time) {
	a := m.attempt(r.RunID)
	switch {
	case a == nil:
		a = newAttempt(r, now)
		a.Attempt = 1
		m.attempts = append(m.attempts, a)
	case !open(a):
		return
	}
	a.Outcome, a.EndedAt, a.Reason = guard.OutcomeNotStarted, now, reason
	if l := m.leases[r.Name]; l != nil && l.RunID == r.RunID && l.ExpiresAt.After(now) {
		l.ExpiresAt = now
	}
	key := [2]string{r.Name, r.Date}
	if run := m.runs[key]; run != nil && run.RunID == r.RunID && run.State == guard.Running {
		delete(m.runs, key)
		m.restore(key)
	}
}

// restore gives the date the end of its last attempt whose child started, if
// there is one: undoing a rerun must not open a door that was shut.
func (m *Memory) restore(key [2]string) {
	for _, a := range slices.Backward(m.attempts) {
		if a.Name != key[0] || a.Date != key[1] || a.Outcome == guard.OutcomeNotStarted {
			continue
		}
		state := guard.Running
		if !a.EndedAt.IsZero() {
			state = a.Outcome.State()
		}
		m.runs[key] = &guard.Run{
			Name: a.Name, Date: a.Date, State: state, RunID: a.RunID, Attempt: a.Attempt,
			StartedAt: a.StartedAt, EndedAt: a.EndedAt, ExitCode: a.ExitCode, Signal: a.Signal, Reason: a.Reason,
		}
		return
	}
}

func (m *Memory) startedAttempts(name, date string) (last int) {
	for _, a := range m.attempts {
		if a.Name == name && a.Date == date && a.Outcome != guard.OutcomeNotStarted {
			last = max(last, a.Attempt)
		}
	}
	return last
}

func (m *Memory) markUnknown(runID string) {
	if a := m.attempt(runID); a != nil && a.Outcome == guard.OutcomeRunning {
		a.Outcome = guard.OutcomeUnknown
	}
}

func newAttempt(r *guard.Request, now time.Time) *Attempt {
	return &Attempt{
		RunID: r.RunID, Name: r.Name, Date: r.Date, Holder: r.Holder, Host: r.Host, PID: r.PID,
		OSUser: r.OSUser, Command: slices.Clone(r.Command), StartedAt: now, Version: r.Version,
	}
}

func (m *Memory) held(l *Lease, now time.Time) guard.Answer {
	a := m.attempt(l.RunID)
	return guard.Answer{Verdict: guard.Held, At: now, Held: &locks.HeldError{Tier: "lease", Ended: a != nil && !a.EndedAt.IsZero(), By: locks.Holder{
		RunID: l.RunID, Text: l.Holder, PID: l.PID, Since: l.AcquiredAt, Until: l.ExpiresAt, Token: l.Token,
	}}}
}
