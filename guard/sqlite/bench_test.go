package sqlite

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"lockrun/guard"
	"lockrun/locks"
)

// benchRun acquires and finishes, and has timed time only what is asked for.
func benchRun(b *testing.B, connected bool, timed string) {
	timing, err := locks.NewTiming(time.Minute, -1)
	if err != nil {
		b.Fatal(err)
	}
	s := New(b.TempDir(), timing)
	b.Cleanup(s.Close)
	ctx := context.Background()
	step := func(name string, call func() error) {
		if name != timed && timed != "" {
			b.StopTimer()
			defer b.StartTimer()
		}
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		r := &guard.Request{
			Name: "bench", Date: strconv.Itoa(n), RunID: uuid.NewString(), Holder: "host", Host: "host", PID: 7,
			OSUser: "batch", Command: []string{"job"}, Version: "test", TTL: time.Minute,
		}
		step("acquire", func() error {
			answer, err := s.Acquire(ctx, r)
			if err == nil && answer.Verdict != guard.Granted {
				b.Fatalf("verdict %v", answer.Verdict)
			}
			return err
		})
		step("renew", func() error { return s.Renew(ctx, r) })
		step("finish", func() error {
			return s.Finish(ctx, &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeSucceeded, ExitCode: new(int)})
		})
		if !connected {
			s.Close()
		}
	}
}

// BenchmarkRun is all that a run asks of the database: to open it, to acquire, to
// renew once, to finish, and to close it.
func BenchmarkRun(b *testing.B) { benchRun(b, false, "") }

// The calls one by one, on a database that is open.
func BenchmarkAcquire(b *testing.B) { benchRun(b, true, "acquire") }
func BenchmarkRenew(b *testing.B)   { benchRun(b, true, "renew") }
func BenchmarkFinish(b *testing.B)  { benchRun(b, true, "finish") }
