package quorum

import (
	"context"
	"testing"
	"time"

	"lockrun/locks/locktest"
)

// benchQuorum takes and gives back a lock on three nodes, and has timed time only
// what is asked for.
func benchQuorum(b *testing.B, connected bool, timed string) {
	urls := locktest.URLs(locktest.StartRedisNodes(b, 3))
	q := open(b, time.Minute, urls)
	ctx := context.Background()
	step := locktest.Steps(b, timed)
	for b.Loop() {
		step("acquire", func() error { return q.Acquire(ctx, claim("host")) })
		step("renew", func() error { return q.Renew(ctx) })
		step("release", func() error { return q.Release(ctx) })
		if !connected {
			b.StopTimer()
			q.Close()
			q = open(b, time.Minute, urls)
			b.StartTimer()
		}
	}
}

// BenchmarkAcquireFirst dials and asks, as a run does.
func BenchmarkAcquireFirst(b *testing.B) { benchQuorum(b, false, "acquire") }

// The calls one by one, on connections that are there.
func BenchmarkAcquire(b *testing.B) { benchQuorum(b, true, "acquire") }
func BenchmarkRenew(b *testing.B)   { benchQuorum(b, true, "renew") }
func BenchmarkRelease(b *testing.B) { benchQuorum(b, true, "release") }
