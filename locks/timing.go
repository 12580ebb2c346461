package locks

import (
	"fmt"
	"time"
)

// The bounds of the arithmetic. The contract names each of them.
const (
	// MinTTL is the smallest ttl: below it the renewals have no room for a
	// single slow call.
	MinTTL = time.Second
	// MaxTTL keeps a lease that nobody renews from shutting a name for longer
	// than a night's work is late. It is far below what a reader of the lease
	// table takes for absurd.
	MaxTTL = 24 * time.Hour
	// maxCall keeps a hung server from eating the retries of a long ttl.
	maxCall = 5 * time.Second
	// minKillMargin is what it takes to kill a tree of processes on a busy host.
	minKillMargin = 250 * time.Millisecond
	maxKillMargin = 5 * time.Second
	// DefaultKillAfter is used when nothing was asked for and it fits.
	DefaultKillAfter = 10 * time.Second
)

// Timing is all the durations of a run. They follow from the ttl and the time
// between SIGTERM and SIGKILL alone.
//
//	|<------------------------ ttl ------------------------>|
//	sent         +ttl/3        T           K          window end
//	|--------------|-----------|-----------|--------------|-|
//	acquire or   renew     SIGTERM     SIGKILL     tree is dead, margin
//	renew sent                 |kill after|  kill margin  |
type Timing struct {
	TTL        time.Duration // how long lock and lease outlive their last renewal
	RenewEvery time.Duration // ttl/3, counted from the sending of the last one that succeeded
	Call       time.Duration // bound of one acquire, renew or finish call
	Margin     time.Duration // by how much the trust window ends before the server's expiry
	KillMargin time.Duration // SIGKILL begins this long before the window's end
	KillAfter  time.Duration // SIGTERM to SIGKILL when lockrun ends the child
}

// TimingError says which numbers can't work together.
type TimingError struct {
	Flag string // "--ttl" or "--kill-after"
	Text string
}

func (e *TimingError) Error() string { return e.Flag + ": " + e.Text }

// NewTiming derives the timing of a run. A negative killAfter means that none
// was asked for: then it is [DefaultKillAfter], or half of what the ttl leaves
// room for, so that one failed renewal can still be repeated.
func NewTiming(ttl, killAfter time.Duration) (Timing, error) {
	if ttl < MinTTL {
		return Timing{}, &TimingError{"--ttl", fmt.Sprintf("%s is too short, the smallest is %s", ttl, MinTTL)}
	}
	if ttl > MaxTTL {
		return Timing{}, &TimingError{"--ttl", fmt.Sprintf("%s is too long, the longest is %s: a killed run would keep the name taken for that long", ttl, MaxTTL)}
	}
	t := Timing{
		TTL:        ttl,
		RenewEvery: ttl / 3,
		Call:       min(ttl/6, maxCall),
		Margin:     ttl/100 + 10*time.Millisecond,
		KillMargin: min(max(ttl/12, minKillMargin), maxKillMargin),
		KillAfter:  killAfter,
	}
	room := t.TTL - t.RenewEvery - t.Call - t.KillMargin - t.Margin
	if killAfter < 0 {
		t.KillAfter = DefaultKillAfter
		if t.KillAfter >= room {
			t.KillAfter = room / 2
		}
	}
	if t.KillAfter >= room {
		return Timing{}, &TimingError{"--kill-after", fmt.Sprintf(
			"%s does not fit into a ttl of %s: renewal after %s + call %s + kill margin %s + margin %s leave less than %s; shorten it or raise --ttl",
			killAfter, ttl, round(t.RenewEvery), round(t.Call), round(t.KillMargin), round(t.Margin), round(room))}
	}
	return t, nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// WindowEnd is the instant until which a grant can be trusted whose request was
// sent at sent. It counts from before the request, so that it always ends
// before the server's own expiry.
func (t Timing) WindowEnd(sent Instant) Instant { return sent.Add(t.TTL - t.Margin) }

// KillAt is K: SIGKILL starts here, so that the tree is dead by the window's end.
func (t Timing) KillAt(windowEnd Instant) Instant { return windowEnd.Add(-t.KillMargin) }

// TermAt is T: SIGTERM goes out here when nothing else has ended the run.
func (t Timing) TermAt(killAt Instant) Instant { return killAt.Add(-t.KillAfter) }

// StartBudget bounds the way from the start to the fork, whatever hangs, for a
// run that does not wait.
func (t Timing) StartBudget() time.Duration { return t.TTL/2 + t.Call }
