package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/runner"
)

func (in *invocation) resolveCommand() *command {
	return &command{
		name: "resolve", help: resolveHelp, run: in.resolve,
		options: ledgerOptions("name", "date", "as", "reason", "tz", "day-starts", "outbox"),
	}
}

// resolve decides a date that failed or that nobody knows the end of.
func (in *invocation) resolve(s *settings) error {
	asJSON, err := s.bool("json")
	if err != nil {
		return err
	}
	outbox, err := s.bool("outbox")
	if err != nil {
		return err
	}
	if outbox {
		return in.sendOutbox(s, asJSON)
	}
	r := guard.Resolution{Actor: actor()}
	if r.Name, err = in.readName(s); err != nil {
		return err
	}
	c := &runConfig{}
	if err := in.dateReader(c)(s); err != nil {
		return err
	}
	if _, from := s.text("date", ""); from == fromDefault {
		return usagef("--date is missing: which date of %s is decided", r.Name)
	}
	if _, from := s.text("as", ""); from == fromDefault {
		return usagef("--as is missing: succeeded, failed or rerun")
	}
	as, err := s.word("as", "", string(guard.AsSucceeded), string(guard.AsFailed), string(guard.AsRerun))
	if err != nil {
		return err
	}
	r.As = guard.Decision(as)
	if r.Reason, err = readReason(s); err != nil {
		return err
	}
	return in.withLedger(s, func(ctx context.Context, l guard.Ledger, st stores) error {
		now := time.Time{}
		if c.date.IsWord() {
			rows, err := l.Latest(ctx, r.Name)
			if err != nil {
				return err
			}
			now = rows.At
		}
		var err error
		if r.Date, err = fixedDate("--date", c.date, guard.Calendar{Zone: c.zone, DayStart: c.dayStarts}, now); err != nil {
			return err
		}
		stored, err := in.deliverFirst(ctx, s, st, &r)
		if err != nil {
			return err
		}
		was, audit, err := l.Resolve(ctx, &r)
		if err != nil {
			if word := settledBy(stored, err); word != "" {
				return no(fmt.Errorf("%s: %s", r.Date, word))
			}
			return unresolved(ctx, l, &r, err)
		}
		for _, sent := range stored {
			if sent.RunID == was.RunID {
				in.warn(fmt.Errorf("%s: its result was in this host's outbox and was stored first: %s", r.Date, sent.Outcome))
			}
		}
		if left := living(was.RunID); left != "" {
			in.warn(errors.New(left))
		}
		if asJSON {
			return printJSON(in, auditRows([]*guard.Audit{audit}))
		}
		return in.print(escaped(resolved(&r, &was)) + "\n")
	})
}

// resolved says what was decided of what.
func resolved(r *guard.Resolution, was *guard.Run) string {
	how := string(was.State)
	if was.State == guard.Running {
		how = string(guard.StateUnknown)
	}
	line := fmt.Sprintf("%s %s: attempt %d was %s", r.Name, r.Date, was.Attempt, how)
	if r.As == guard.AsRerun {
		return line + "; the date is open for one more attempt, which nothing starts by itself: " + runIt(r)
	}
	return line + "; the date counts as " + string(r.As)
}

// runIt is the next step for a date that is open.
func runIt(r *guard.Resolution) string { return "run the same job with --date " + r.Date }

// unresolved words a refusal.
func unresolved(ctx context.Context, l guard.Ledger, r *guard.Resolution, err error) error {
	var live *locks.HeldError
	var settled *guard.SettledError
	switch {
	case errors.As(err, &live) && live.Ended:
		return &exitError{kind: runner.EventHeld, code: runner.ExitHeld, held: live, err: fmt.Errorf("%s: %s; lockrun release --force ends it sooner", r.Date, holderText(live))}
	case errors.As(err, &live):
		return &exitError{kind: runner.EventHeld, code: runner.ExitHeld, held: live, err: fmt.Errorf("%s: %s", r.Date, holderText(live))}
	case errors.As(err, &settled):
		return no(fmt.Errorf("%s: nothing to resolve, it has succeeded%s; --rerun succeeded on a run runs it again", r.Date, earlier(&settled.Run)))
	case errors.Is(err, guard.ErrNotFound):
		rows, readErr := l.All(ctx, r.Name)
		if readErr != nil {
			return readErr
		}
		if slices.ContainsFunc(rows.Attempts, func(a guard.Attempt) bool { return a.Date == r.Date }) {
			return no(fmt.Errorf("%s: nothing to resolve, the date is open already; %s", r.Date, runIt(r)))
		}
		return no(fmt.Errorf("%s: nothing to resolve, no run has this date", r.Date))
	}
	return err
}
