package locks_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"lockrun/locks"
)

func TestTiming(t *testing.T) {
	tests := []struct {
		name           string
		ttl, killAfter time.Duration
		want           locks.Timing
		flag           string // of the error
	}{
		{name: "default", ttl: time.Minute, killAfter: -1, want: locks.Timing{
			TTL: time.Minute, RenewEvery: 20 * time.Second, Call: 5 * time.Second,
			Margin: 610 * time.Millisecond, KillMargin: 5 * time.Second, KillAfter: 10 * time.Second,
		}},
		{name: "a minute leaves up to 29 s", ttl: time.Minute, killAfter: 29 * time.Second, want: locks.Timing{
			TTL: time.Minute, RenewEvery: 20 * time.Second, Call: 5 * time.Second,
			Margin: 610 * time.Millisecond, KillMargin: 5 * time.Second, KillAfter: 29 * time.Second,
		}},
		{name: "30 s do not fit into a minute", ttl: time.Minute, killAfter: 30 * time.Second, flag: "--kill-after"},
		{name: "default lowered to half of the room", ttl: 6 * time.Second, killAfter: -1, want: locks.Timing{
			TTL: 6 * time.Second, RenewEvery: 2 * time.Second, Call: time.Second,
			Margin: 70 * time.Millisecond, KillMargin: 500 * time.Millisecond, KillAfter: 1215 * time.Millisecond,
		}},
		{name: "no grace at all", ttl: time.Second, killAfter: 0, want: locks.Timing{
			TTL: time.Second, RenewEvery: time.Second / 3, Call: time.Second / 6,
			Margin: 20 * time.Millisecond, KillMargin: 250 * time.Millisecond, KillAfter: 0,
		}},
		{name: "long ttl caps call and kill margin", ttl: time.Hour, killAfter: -1, want: locks.Timing{
			TTL: time.Hour, RenewEvery: 20 * time.Minute, Call: 5 * time.Second,
			Margin: 36*time.Second + 10*time.Millisecond, KillMargin: 5 * time.Second, KillAfter: 10 * time.Second,
		}},
		{name: "ttl below the smallest", ttl: 999 * time.Millisecond, killAfter: -1, flag: "--ttl"},
		{name: "ttl above the longest", ttl: 24*time.Hour + 1, killAfter: -1, flag: "--ttl"},
		{name: "one millisecond", ttl: time.Millisecond, killAfter: -1, flag: "--ttl"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := locks.NewTiming(tt.ttl, tt.killAfter)
			if tt.flag != "" {
				var te *locks.TimingError
				if !errors.As(err, &te) || te.Flag != tt.flag {
					t.Fatalf("error %v, want one about %s", err, tt.flag)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Fatalf("got %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

// Whatever the ttl: a renewal that fails once, at its own deadline, comes before
// SIGTERM; SIGTERM before SIGKILL; SIGKILL leaves its margin; and the window
// ends before the server's expiry.
func TestTimingOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		ttl := locks.MinTTL + time.Duration(r.Int64N(int64(3*time.Hour)))
		killAfter := time.Duration(-1)
		if r.IntN(2) == 0 {
			killAfter = time.Duration(r.Int64N(int64(ttl)))
		}
		tm, err := locks.NewTiming(ttl, killAfter)
		if err != nil {
			if killAfter < 0 {
				t.Fatalf("ttl %s alone: %v", ttl, err)
			}
			continue
		}
		const sent = locks.Instant(time.Hour)
		end := tm.WindowEnd(sent)
		kill := tm.KillAt(end)
		term := tm.TermAt(kill)
		answered := sent.Add(tm.RenewEvery + tm.Call)
		if !answered.Before(term) || kill.Before(term) || !kill.Before(end) || !end.Before(sent.Add(ttl)) {
			t.Fatalf("ttl %s, kill after %s: answer %v, term %v, kill %v, end %v", ttl, killAfter, answered, term, kill, end)
		}
	}
}
