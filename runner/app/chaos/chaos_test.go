//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lockrun/locks/locktest"
)

// shortSeeds are the schedules of an ordinary go test.
var shortSeeds = []uint64{1, 2, 3}

const (
	// worldsAtOnce is how many worlds the long form keeps.
	worldsAtOnce = 3
	// batchSize is how many schedules a world lives for: what its servers log
	// and leave is gone with it.
	batchSize = 20
)

// TestChaos plays schedules and judges what happened.
func TestChaos(t *testing.T) {
	s := newSummary()
	defer s.print()
	if *runFor == 0 {
		seeds := shortSeeds
		if *onlySeed != 0 {
			seeds = []uint64{*onlySeed}
		}
		t.Run("short", func(t *testing.T) {
			for _, seed := range seeds {
				s.inOneWorld(t, seed, 1, func() bool { return true })
			}
		})
		return
	}
	next := *onlySeed
	if next == 0 {
		next = rand.Uint64N(1 << 32)
	}
	until := time.Now().Add(*runFor)
	goOn := func() bool { return time.Now().Before(until) }
	for ; goOn(); next += worldsAtOnce * batchSize {
		t.Run(fmt.Sprint("long_from_", next), func(t *testing.T) {
			for i := range uint64(worldsAtOnce) {
				s.inOneWorld(t, next+i*batchSize, batchSize, goOn)
			}
		})
	}
}

// inOneWorld plays a few seeds in a row, beside other worlds.
func (s *summary) inOneWorld(t *testing.T, first, count uint64, goOn func() bool) {
	t.Run(fmt.Sprint("seed_", first), func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, program(t), ownPostgres(t))
		w.names = startNameServer(t)
		for seed := first; seed < first+count && goOn(); seed++ {
			s.play(w, newPlan(seed))
		}
	})
}

// ownPostgres is one that a world may kill, with its memory in its directory.
func ownPostgres(tb testing.TB) *locktest.Postgres {
	tb.Helper()
	return locktest.StartPostgres(tb, "dynamic_shared_memory_type=mmap")
}

// play plays a schedule and judges it.
func (s *summary) play(w *world, p *plan) {
	fmt.Println(p)
	w.begin(p)
	h := w.play(p)
	v := judge(h)
	s.add(p, h, v)
	if len(v.Violations) > 0 {
		w.Errorf("seed %d: %d violations, evidence in %s\n%s\n%v", p.Seed, len(v.Violations), w.keepEvidence(p.Seed, h), p, v)
	}
	w.finish()
}
