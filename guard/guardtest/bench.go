package guardtest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// BenchRequest asks for a date that nobody has asked for yet.
func BenchRequest(n int, ttl time.Duration) *guard.Request {
	return &guard.Request{
		Name: "bench", Date: strconv.Itoa(n), RunID: uuid.NewString(), Holder: "host", Host: "host", PID: 7,
		OSUser: "batch", Command: []string{"job"}, Version: "test", TTL: ttl,
	}
}

// Bench is runs one after the other, each with one renewal if renews is set. It
// has only the step timed that is named, acquire, renew or finish, or with "" all
// of them. Unless connected, each run opens the store anew.
func Bench(b *testing.B, s guard.Store, ttl time.Duration, renews, connected bool, timed string) {
	ctx := context.Background()
	step := locktest.Steps(b, timed)
	for n := 0; b.Loop(); n++ {
		r := BenchRequest(n, ttl)
		step("acquire", func() error {
			answer, err := s.Acquire(ctx, r)
			if err == nil && answer.Verdict != guard.Granted {
				b.Fatalf("verdict %v", answer.Verdict)
			}
			return err
		})
		if renews {
			step("renew", func() error { return s.Renew(ctx, r) })
		}
		step("finish", func() error {
			return s.Finish(ctx, &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeSucceeded, ExitCode: new(int)})
		})
		if !connected {
			s.Close()
		}
	}
}
