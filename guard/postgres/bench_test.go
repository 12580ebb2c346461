package postgres

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"lockrun/guard"
)

// benchRequest asks for a date that nobody has asked for yet.
func benchRequest(n int) *guard.Request {
	return &guard.Request{
		Name: "bench", Date: strconv.Itoa(n), RunID: uuid.NewString(), Holder: "host", Host: "host", PID: 7,
		OSUser: "batch", Command: []string{"job"}, Version: "test", TTL: testTTL,
	}
}

// benchRun acquires and finishes, and has timed time only what is asked for.
func benchRun(b *testing.B, connected bool, timed string) {
	d := newDatabase(b)
	s := store(b, d.dsn)
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
		r := benchRequest(n)
		step("acquire", func() error {
			answer, err := s.Acquire(ctx, r)
			if err == nil && answer.Verdict != guard.Granted {
				b.Fatalf("verdict %v", answer.Verdict)
			}
			return err
		})
		step("finish", func() error {
			return s.Finish(ctx, &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeSucceeded, ExitCode: new(int)})
		})
		if !connected {
			s.Close()
		}
	}
}

// BenchmarkRun is all that a run asks of Postgres, on a connection of its own.
func BenchmarkRun(b *testing.B) { benchRun(b, false, "") }

// The calls one by one, on a connection that is there; for renewals see BenchmarkRenew.
func BenchmarkAcquire(b *testing.B) { benchRun(b, true, "acquire") }
func BenchmarkFinish(b *testing.B)  { benchRun(b, true, "finish") }

// BenchmarkAcquireFirst dials and asks, as a run does.
func BenchmarkAcquireFirst(b *testing.B) { benchRun(b, false, "acquire") }
