package locks

import (
	"errors"
	"fmt"
)

// UpdateKind says what an [Update] tells.
type UpdateKind int

// What a [Hold] has to tell.
const (
	Extended    UpdateKind = iota + 1 // the deadline moved to KillAt
	RenewFailed                       // one renewal failed with Err; it is repeated
	Dropped                           // the window of an optional tier closed; it is not touched again
	Lost                              // the run must end: SIGTERM now, SIGKILL at KillAt. Told once
)

// Update is one piece of news from a [Hold].
type Update struct {
	Kind   UpdateKind
	Tier   string
	Err    error
	KillAt Instant
}

// judge decides from grants, failures and the clock alone whether a run may go
// on. It does no input or output and has no goroutine.
type judge struct {
	timing Timing
	tiers  []tierState
	lost   bool
	news   []Update // not told yet, oldest first
}

type tierState struct {
	name      string
	optional  bool
	windowEnd Instant
	gone      bool // dropped, or another's for certain
	lastErr   error
}

func newJudge(t Timing, keeps []Keep) *judge {
	j := &judge{timing: t}
	for _, k := range keeps {
		j.tiers = append(j.tiers, tierState{name: k.Name, optional: k.Optional, windowEnd: t.WindowEnd(k.Sent)})
	}
	return j
}

// weakest is the required tier whose window ends first: it sets the deadline.
func (j *judge) weakest() *tierState {
	var w *tierState
	for i := range j.tiers {
		if s := &j.tiers[i]; !s.optional && (w == nil || s.windowEnd < w.windowEnd) {
			w = s
		}
	}
	return w
}

func (j *judge) killAt() Instant { return j.timing.KillAt(j.weakest().windowEnd) }

// next is the instant at which tick has something to decide.
func (j *judge) next() Instant {
	at := Instant(1<<63 - 1)
	if !j.lost {
		at = j.timing.TermAt(j.killAt())
	}
	for i := range j.tiers {
		if s := &j.tiers[i]; s.optional && !s.gone {
			at = min(at, s.windowEnd)
		}
	}
	return at
}

// tick judges by the clock. It comes before everything else that is learned at
// the same instant, so that a grant that arrives too late changes nothing.
func (j *judge) tick(now Instant) {
	for i := range j.tiers {
		if s := &j.tiers[i]; s.optional && !s.gone && now >= s.windowEnd {
			s.gone = true
			j.tell(Update{Kind: Dropped, Tier: s.name, Err: s.closed()})
		}
	}
	if w := j.weakest(); !j.lost && now >= j.timing.TermAt(j.killAt()) {
		j.lost = true
		j.tell(Update{Kind: Lost, Tier: w.name, Err: w.closed(), KillAt: j.killAt()})
	}
}

func (j *judge) tell(u Update) { j.news = append(j.news, u) }

// closed explains why a window was not extended.
func (s *tierState) closed() error {
	if s.lastErr == nil {
		return fmt.Errorf("%s could not be renewed in time: this process or its host stood still", s.name)
	}
	return fmt.Errorf("%s could not be renewed in time: %w", s.name, s.lastErr)
}

// granted takes note of a renewal that was sent at sent and succeeded.
func (j *judge) granted(tier int, sent, now Instant) {
	s := &j.tiers[tier]
	end := j.timing.WindowEnd(sent)
	if s.gone || now >= s.windowEnd || end <= s.windowEnd {
		return
	}
	before := j.killAt()
	s.windowEnd, s.lastErr = end, nil
	if after := j.killAt(); !j.lost && after != before {
		j.tell(Update{Kind: Extended, Tier: s.name, KillAt: after})
	}
}

// failed takes note of a renewal that did not succeed.
func (j *judge) failed(tier int, err error, now Instant) {
	s := &j.tiers[tier]
	if s.gone {
		return
	}
	s.lastErr = err
	if !errors.Is(err, ErrLost) {
		j.tell(Update{Kind: RenewFailed, Tier: s.name, Err: err})
		return
	}
	s.gone = true
	if j.lost {
		return
	}
	j.lost = true
	j.tell(Update{
		Kind: Lost, Tier: s.name, Err: fmt.Errorf("%s: %w", s.name, err),
		KillAt: min(now.Add(j.timing.KillAfter), j.killAt()),
	})
}
