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
		was, audit, err := l.Release(ctx, &e)
		if err != nil {
			return unreleased(&was, err)
		}
		keys := 0
		if q != nil {
			defer q.Close()
			keys, err = q.ReleaseRun(ctx, e.Name, was.RunID)
		}
		if asJSON {
			return errors.Join(printJSON(in, auditRow(audit)), err)
		}
		return errors.Join(in.print(released(&was, audit != nil, keys)), err)
	})
}

// operatorQuorum is the quorum of these stores, nil if they have none.
func operatorQuorum(st stores) (*quorum.Quorum, error) {
	if st.local || len(st.redis) == 0 {
		return nil, nil
	}
	t, err := locks.NewTiming(time.Minute, -1)
	if err != nil {
		return nil, err
	}
	q, err := quorum.New(quorum.Options{URLs: st.redis, TLS: st.tls, Timing: t, Clock: locks.SystemClock{}})
	var setup *locks.SetupError
	switch {
	case errors.As(err, &setup):
		return nil, setup
	case err != nil:
		return nil, usagef("%w", err)
	}
	return q, nil
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
	if ended && was.ExpiresAt.Sub(was.RenewedAt) <= guard.AbsurdAfter {
		line += fmt.Sprintf("; a holder that still lives learns of it at its next renewal, by %s", stamp(was.ExpiresAt))
	}
	return escaped(line) + "\n"
}

// unreleased words a refusal.
func unreleased(was *guard.Lease, err error) error {
	var live *locks.HeldError
	switch {
	case errors.As(err, &live):
		return &exitError{kind: runner.EventHeld, code: runner.ExitHeld, held: live, err: fmt.Errorf("%s; last renewed %s: if its holder is dead, release it from %s on, when it has missed a renewal; --force on a living holder makes two runs at once possible",
			holderText(live), stamp(was.RenewedAt), stamp(was.OverdueAt().Add(time.Second)))}
	case errors.Is(err, guard.ErrNotFound):
		return no(errors.New("nothing to release, no run of it has had a lease"))
	}
	return err
}
