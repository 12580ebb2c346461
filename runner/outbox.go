package runner

import (
	"errors"
	"fmt"
	"time"

	"lockrun/guard"
	"lockrun/guard/outbox"
)

// sendOutbox tells the store, once, what earlier runs on this host could not:
// before this one asks and within the time that is left for its start, so that a date which was done counts as done. Nothing of
// it stops the run.
func (x *run) sendOutbox(left time.Duration) {
	if x.Outbox == nil || x.sentOutbox {
		return
	}
	x.sentOutbox = true
	ctx, cancel := x.patient(min(x.Timing.Call, left))
	defer cancel()
	all, err := x.Outbox.Send(ctx, x.Store)
	if err != nil {
		x.report(Event{Kind: EventConfig, Level: Warn, Err: fmt.Errorf("the outbox was not sent: %w", err)})
	}
	for _, s := range all {
		var corrupt *outbox.CorruptError
		switch {
		case s.Err == nil:
			x.report(Event{Kind: EventRecorded, Level: Info, Err: fmt.Errorf("run %s of %s %s, from the outbox", s.RunID, s.Name, s.Date)})
		case errors.As(s.Err, &corrupt):
			x.report(Event{Kind: EventConfig, Level: Warn, Err: s.Err, Next: "look at it and remove it; it is kept, and this run goes on"})
		case errors.Is(s.Err, outbox.ErrOtherStore):
			x.report(Event{Kind: EventConfig, Level: Debug, Err: fmt.Errorf("outbox file %q: %w", s.Path, s.Err)})
		default:
			x.report(Event{Kind: EventUnrecorded, Level: Info, Err: fmt.Errorf("outbox file %q: %w", s.Path, s.Err)})
		}
	}
}

// keepEnd puts an end that could not be stored into the outbox, and says where
// it is now.
func (x *run) keepEnd(end *guard.End, endedAt time.Time) string {
	if x.Outbox == nil {
		return ""
	}
	path, err := x.Outbox.KeepEnd(end, endedAt)
	if err != nil {
		return fmt.Sprintf("the outbox does not take it either: %v", err)
	}
	return fmt.Sprintf("it is kept in %s until the next run of this user here, or `lockrun resolve --outbox`", path)
}

// keepNotStarted puts into the outbox that this run started nothing.
func (x *run) keepNotStarted(reason string) string {
	if x.Outbox == nil {
		return ""
	}
	path, err := x.Outbox.KeepNotStarted(&x.req, reason, time.Now())
	if err != nil {
		return fmt.Sprintf("the outbox does not take it: %v", err)
	}
	return fmt.Sprintf("the next run of this user here, or `lockrun resolve --outbox`, takes it back (%s)", path)
}
