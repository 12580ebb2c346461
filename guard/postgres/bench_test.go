package postgres

import (
	"testing"

	"lockrun/guard/guardtest"
)

func benchRun(b *testing.B, connected bool, timed string) {
	guardtest.Bench(b, store(b, newDatabase(b).dsn), testTTL, false, connected, timed)
}

// BenchmarkRun is all that a run asks of Postgres, on a connection of its own.
func BenchmarkRun(b *testing.B) { benchRun(b, false, "") }

// The calls one by one, on a connection that is there; for renewals see BenchmarkRenew.
func BenchmarkAcquire(b *testing.B) { benchRun(b, true, "acquire") }
func BenchmarkFinish(b *testing.B)  { benchRun(b, true, "finish") }

// BenchmarkAcquireFirst dials and asks, as a run does.
func BenchmarkAcquireFirst(b *testing.B) { benchRun(b, false, "acquire") }
