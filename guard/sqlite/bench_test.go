package sqlite

import (
	"testing"

	"lockrun/guard/guardtest"
)

func benchRun(b *testing.B, connected bool, timed string) {
	s := New(b.TempDir(), timing(b))
	b.Cleanup(s.Close)
	guardtest.Bench(b, s, s.ttl, true, connected, timed)
}

// BenchmarkRun is all that a run asks of the database: to open it, to acquire, to
// renew once, to finish, and to close it.
func BenchmarkRun(b *testing.B) { benchRun(b, false, "") }

// The calls one by one, on a database that is open.
func BenchmarkAcquire(b *testing.B) { benchRun(b, true, "acquire") }
func BenchmarkRenew(b *testing.B)   { benchRun(b, true, "renew") }
func BenchmarkFinish(b *testing.B)  { benchRun(b, true, "finish") }
