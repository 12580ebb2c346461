package app

import (
	"errors"
	"fmt"
	"strings"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/runner"
	"lockrun/runner/supervise"
)

// All words of a run to the user. The rules: one line an event, "lockrun: " and
// the run's name and date first, then what is, why, who, and after a semicolon
// the next step; lower case, no full stop, times in UTC.

// text is the line of an event for people.
func (l *log) text(e runner.Event) string {
	subject := l.name
	if e.Date != "" {
		subject += " " + e.Date
	}
	if subject != "" {
		subject += ": "
	}
	line := "lockrun: " + subject + sentence(e)
	if e.Note != "" && e.Kind != runner.EventHeld && e.Kind != runner.EventRefused {
		line += "; " + e.Note
	}
	if e.Next != "" && (e.Kind != runner.EventHeld || e.Held == nil) {
		line += "; " + e.Next
	}
	return printable(line)
}

// sentence says what the event is.
func sentence(e runner.Event) string {
	if e.Err != nil && (e.Kind == runner.EventHeld || e.Kind == runner.EventRefused) {
		return reason(e) // of a command that is no run
	}
	switch e.Kind {
	case runner.EventHeld:
		return held(e)
	case runner.EventDone:
		return "already done, nothing started" + earlier(e.Prior) + "; --rerun succeeded runs it again"
	case runner.EventRefused:
		return refused(e)
	case runner.EventLost:
		if errors.Is(e.Err, runner.ErrUnkilled) {
			return "lost: " + reason(e)
		}
		if e.Status == nil {
			return "lost, the child was ended: " + reason(e)
		}
		return "lost, the child was ended (" + ended(*e.Status) + "): " + reason(e)
	case runner.EventUnrecorded:
		if e.Status == nil {
			return reason(e)
		}
		return fmt.Sprintf("the child %s at %s, but that could not be stored: %s", ended(*e.Status), stamp(e.EndedAt), reason(e))
	case runner.EventEnded:
		switch {
		case e.Err != nil && e.Status != nil:
			return "the child was ended (" + ended(*e.Status) + "): " + reason(e)
		case e.Err != nil:
			return "the child was ended: " + reason(e)
		case e.Status != nil:
			return "the child " + ended(*e.Status)
		}
		return "the child ended"
	case runner.EventQuorumLost:
		return "warning: no quorum: " + reason(e)
	case runner.EventAcquired:
		if e.Level == runner.Warn {
			return "warning: " + reason(e)
		}
		return fmt.Sprintf("acquired, token %d", e.Token)
	case runner.EventStarted:
		return fmt.Sprintf("child started, pid %d", e.PID)
	case runner.EventConfig:
		if e.Level == runner.Warn {
			return "warning: " + reason(e)
		}
		return reason(e)
	}
	if e.Err == nil {
		return strings.ReplaceAll(string(e.Kind), "_", " ")
	}
	if e.Level >= runner.Info {
		return strings.ReplaceAll(string(e.Kind), "_", " ") + ": " + reason(e)
	}
	return reason(e)
}

func reason(e runner.Event) string {
	if e.Err == nil {
		return "no reason known"
	}
	return e.Err.Error()
}

// held says who has the lock or lease.
func held(e runner.Event) string {
	h := e.Held
	var b strings.Builder
	if h.Blocker != 0 {
		fmt.Fprintf(&b, "held: Postgres process %d keeps the lease locked in an open transaction", h.Blocker)
		if h.By.Text != "" {
			fmt.Fprintf(&b, "; the lease was %s's", h.By.Text)
		}
	} else {
		who := h.By.Text
		if who == "" {
			who = "somebody who left no name"
		}
		fmt.Fprintf(&b, "held by %s", who)
	}
	if h.By.PID != 0 {
		fmt.Fprintf(&b, " (pid %d)", h.By.PID)
	}
	if !h.By.Since.IsZero() {
		fmt.Fprintf(&b, " since %s", stamp(h.By.Since))
	}
	switch {
	case h.By.Until.IsZero():
	case h.Ended:
		fmt.Fprintf(&b, ", until %s: its run has ended, --at-least keeps the lease", stamp(h.By.Until))
	default:
		fmt.Fprintf(&b, ", until %s if not renewed", stamp(h.By.Until))
	}
	if h.Tier == quorumTier {
		b.WriteString(" (its lock in Redis)") // which may be all that there is
	}
	return b.String() + heldEnd(e)
}

// quorumTier is the tier whose locks are in Redis.
const quorumTier = "quorum"

func heldEnd(e runner.Event) string {
	if e.ExitCode == nil {
		return ", " + e.Note
	}
	return "; nothing started, " + e.Next
}

// earlier says who ran the date before.
func earlier(p *guard.Run) string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, ": attempt %d", p.Attempt)
	if p.Holder != "" {
		fmt.Fprintf(&b, " by %s (pid %d)", p.Holder, p.PID)
	}
	fmt.Fprintf(&b, " started %s", stamp(p.StartedAt))
	if !p.EndedAt.IsZero() {
		fmt.Fprintf(&b, ", ended %s", stamp(p.EndedAt))
	}
	return b.String()
}

// refused says why the date is not run again, and both ways on.
func refused(e runner.Event) string {
	p := e.Prior
	word, what := "failed", "an earlier attempt failed"
	if e.Verdict == guard.IsUnknown {
		word, what = "unknown", "nobody knows how an earlier attempt ended"
	}
	if p != nil {
		switch {
		case p.ExitCode != nil:
			what += fmt.Sprintf(" with exit code %d", *p.ExitCode)
		case p.Signal != "":
			what += " by " + p.Signal
		}
		if p.Reason != "" {
			what += " (" + p.Reason + ")"
		}
		if p.Host != "" && e.Verdict == guard.IsUnknown {
			where := p.Host
			if e.Note != "" {
				where += ", " + e.Note
			}
			what += " (on " + where + ")"
		}
	}
	return "nothing started, " + what + earlier(p) + "; look at it, then --rerun " + word + " or `lockrun resolve`"
}

// ended says how the child ended.
func ended(s supervise.Status) string {
	if s.Signal != 0 {
		return "died of " + runner.SignalName(s.Signal)
	}
	return fmt.Sprintf("exited %d", s.Code)
}

// printable replaces what could steer a terminal: names and holders come from
// servers that others write to.
func printable(text string) string {
	return strings.Map(locks.ShownRune, clipped(text, maxLine))
}
