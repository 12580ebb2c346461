package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/locks/quorum"
	"lockrun/runner"
)

func (in *invocation) releaseCommand() *command {
	return &command{
		name: "release", help: releaseHelp, run: in.release,
		options: ledgerOptions("name", "reason", "force", "redis", "redis-ca", "redis-cert", "redis-key"),
	}
}

// release ends a lease and removes the key that goes with it.
func (in *invocation) release(s *settings) error {
	e := guard.Eviction{Actor: actor()}
	var err error
	if e.Name, err = in.readName(s); err != nil {
		return err
	}
	if e.Reason, err = readReason(s); err != nil {
		return err
	}
	if e.Force, err = s.bool("force"); err != nil {
		return err
	}
	asJSON, err := s.bool("json")
	if err != nil {
		return err
	}
	return in.withLedger(s, func(ctx context.Context, l guard.Ledger, st stores) error {
		q, err := operatorQuorum(st)
		if err != nil {
			return err
		}
		if q != nil {
			defer q.Close()
		}
		return in.releaseBoth(ctx, l, q, &e, asJSON)
	})
}

// releaseBoth ends the lease, removes the key that goes with it, and those of
// runs that never came to a lease.
func (in *invocation) releaseBoth(ctx context.Context, l guard.Ledger, q *quorum.Quorum, e *guard.Eviction, asJSON bool) error {
	was, audit, err := l.Release(ctx, e)
	known := err == nil
	if !known && (q == nil || !errors.Is(err, guard.ErrNotFound)) {
		return unreleased(&was, err)
	}
	keys := 0
	var away, fault error
	var stray removedLocks
	if q != nil {
		if known {
			keys, away = q.ReleaseRun(ctx, e.Name, was.RunID)
		}
		if stray, fault = releaseLocks(ctx, q, l, e); away == nil {
			away = stray.away
		}
		fault = errors.Join(fault, away)
	}
	lines, audits := stray.lines, stray.audits
	switch {
	case known:
		lines = append([]string{released(&was, audit != nil, keys)}, lines...)
		if audit != nil {
			audits = append([]*guard.Audit{audit}, audits...)
		}
	case len(lines) == 0 && fault == nil:
		return unreleased(&was, err)
	}
	if asJSON {
		return errors.Join(printJSON(in, auditRows(audits)), fault)
	}
	text := ""
	for _, line := range lines {
		text += escaped(line) + "\n"
	}
	return errors.Join(in.print(text), fault)
}

// released says whose lease it was, and that its child may not know yet.
func released(was *guard.Lease, ended bool, keys int) string {
	holder := was.HeldError().By.Text
	line := fmt.Sprintf("%s: the lease of %s (pid %d) is over since %s", was.Name, holder, was.PID, stamp(was.ExpiresAt))
	if ended {
		line = fmt.Sprintf("%s: the lease of %s (pid %d) since %s is ended", was.Name, holder, was.PID, stamp(was.AcquiredAt))
	}
	if keys > 0 {
		line += fmt.Sprintf(", its key removed from %d Redis nodes", keys)
	}
	switch {
	case ended && was.Ended:
		line += "; its run had ended before, only --at-least kept it"
	case ended && was.ExpiresAt.Sub(was.RenewedAt) <= guard.AbsurdAfter:
		line += fmt.Sprintf("; a holder that still lives learns of it at its next renewal, by %s", stamp(was.ExpiresAt))
	}
	return line
}

// unreleased words a refusal.
func unreleased(was *guard.Lease, err error) error {
	var live *locks.HeldError
	switch {
	case errors.As(err, &live) && live.Ended:
		return &exitError{kind: runner.EventHeld, code: runner.ExitHeld, held: live, err: fmt.Errorf("%s; --force ends it sooner", holderText(live))}
	case errors.As(err, &live):
		return &exitError{kind: runner.EventHeld, code: runner.ExitHeld, held: live, err: fmt.Errorf("%s; last renewed %s: if its holder is dead, release it from %s on, when it has missed a renewal; --force on a living holder makes two runs at once possible",
			holderText(live), stamp(was.RenewedAt), stamp(was.OverdueAt().Add(time.Second)))}
	case errors.Is(err, guard.ErrNotFound):
		return no(errors.New("nothing to release, no run of it has had a lease"))
	}
	return err
}
