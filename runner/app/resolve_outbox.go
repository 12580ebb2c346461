package app

import (
	"context"
	"errors"
	"fmt"

	"lockrun/guard"
	"lockrun/guard/outbox"
	"lockrun/locks"
	"lockrun/runner"
)

// deliverFirst stores what waits in this host's outbox before a person decides a
// date: the run whose end nobody knows may have left it there. It returns what
// became of the entries for that date. The error says that the store is away,
// and that nothing must be decided; anything else is a warning.
func (in *invocation) deliverFirst(ctx context.Context, s *settings, st stores, r *guard.Resolution) ([]outbox.Sent, error) {
	dir, err := stateDir(s, in.env)
	if err != nil || dir == "" {
		return nil, err // without a directory no run here has kept anything
	}
	box := outbox.New(dir, st.address())
	var all []outbox.Sent
	waiting, err := box.Waiting()
	if err == nil && waiting > 0 {
		all, err = deliver(ctx, box, st)
	}
	if err != nil {
		in.warn(fmt.Errorf("the outbox in %s can't be read, so a result in it is not considered: %w", box.Dir(), err))
	}
	var ours []outbox.Sent
	for _, sent := range all {
		var away *locks.UnavailableError
		var corrupt *outbox.CorruptError
		mine := sent.Name == r.Name && sent.Date == r.Date
		switch {
		case errors.As(sent.Err, &away):
			return nil, away
		case errors.As(sent.Err, &corrupt):
			in.warn(fmt.Errorf("%w; it is kept, look at it", sent.Err))
		case sent.Err != nil && (mine || !errors.Is(sent.Err, outbox.ErrOtherStore)):
			in.warn(fmt.Errorf("outbox file %q was not stored and is kept: %w", sent.Path, sent.Err))
		case sent.Err == nil && mine:
			ours = append(ours, sent)
		}
	}
	return ours, ctx.Err()
}

func (in *invocation) warn(err error) {
	in.log.take(runner.Event{Kind: runner.EventConfig, Level: runner.Warn, Err: err})
}

// settledBy words what the outbox has made of a date that needs no decision any
// more; "" if that is not its doing.
func settledBy(ours []outbox.Sent, err error) string {
	var settled *guard.SettledError
	for _, sent := range ours {
		switch {
		case errors.As(err, &settled) && settled.Run.RunID == sent.RunID:
			return fmt.Sprintf("its result was in this host's outbox and is stored now: %s; nothing is left to resolve", sent.Outcome)
		case errors.Is(err, guard.ErrNotFound) && sent.Outcome == guard.OutcomeNotStarted:
			return "this host's outbox had it that its run never started, which is stored now: the date is open, nothing is left to resolve"
		}
	}
	return ""
}
