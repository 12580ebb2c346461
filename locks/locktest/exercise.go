package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"lockrun/locks"
)

// ExerciseFilter checks what every [locks.Filter] promises. open returns two
// contenders for one set of locks; it is called for each test, each test uses a
// name of its own, and the suite closes the contenders.
func ExerciseFilter(t *testing.T, open func(t *testing.T) (a, b locks.Filter)) {
	for _, c := range filterTests {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			f := &filterTest{T: t, name: c.name + "/" + uuid.NewString(), a: a, b: b}
			t.Cleanup(func() {
				for _, x := range []locks.Filter{a, b} {
					_ = x.Release(context.WithoutCancel(t.Context()))
					x.Close()
				}
			})
			c.run(f)
		})
	}
}

// filterPatience bounds what has to happen; nothing is expected to take so long.
const filterPatience = 30 * time.Second

type filterTest struct {
	*testing.T
	name string
	a, b locks.Filter
}

func (f *filterTest) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), filterPatience)
	f.Cleanup(cancel)
	return ctx
}

func (f *filterTest) claim(holder string) locks.Claim {
	return locks.Claim{Name: f.name, RunID: uuid.NewString(), PID: 4711, Holder: holder, At: time.Now()}
}

func (f *filterTest) acquire(x locks.Filter, c locks.Claim) {
	f.Helper()
	if err := x.Acquire(f.ctx(), c); err != nil {
		f.Fatalf("acquire for %q: %v", c.Holder, err)
	}
}

// held fails unless x is told that c has the lock.
func (f *filterTest) held(x locks.Filter, c locks.Claim) *locks.HeldError {
	f.Helper()
	err := x.Acquire(f.ctx(), f.claim("node 9"))
	var held *locks.HeldError
	if !errors.As(err, &held) {
		f.Fatalf("acquire of a held lock: %v", err)
	}
	by := held.By
	if held.Tier == "" || by.RunID != c.RunID || by.Text != c.Holder || by.PID != c.PID ||
		by.Since.Sub(c.At).Abs() > time.Millisecond {
		f.Fatalf("held by %+v (%s), want %+v", by, held.Tier, c)
	}
	return held
}

func (f *filterTest) release(x locks.Filter) {
	f.Helper()
	if err := x.Release(f.ctx()); err != nil {
		f.Fatalf("release: %v", err)
	}
}

func (f *filterTest) renew(x locks.Filter) {
	f.Helper()
	if err := x.Renew(f.ctx()); err != nil {
		f.Fatalf("renew: %v", err)
	}
}

var filterTests = []struct {
	name string
	run  func(f *filterTest)
}{
	{"held", func(f *filterTest) {
		c := f.claim("node 7, rack b")
		f.acquire(f.a, c)
		f.held(f.b, c)
		f.renew(f.a)
		f.held(f.b, c)
	}},
	{"released", func(f *filterTest) {
		first, second := f.claim("node 7"), f.claim("node 8")
		f.acquire(f.a, first)
		f.held(f.b, first)
		f.release(f.a)
		f.acquire(f.b, second)
		f.held(f.a, second)
		if err := f.a.Renew(f.ctx()); err == nil {
			f.Fatal("renewed what another has")
		}
		f.renew(f.b)
		f.release(f.b)
		third := f.claim("node 7 again")
		f.acquire(f.a, third)
		f.held(f.b, third)
	}},
	{"release_of_anothers", func(f *filterTest) {
		c := f.claim("node 7")
		f.release(f.b) // before it asked for anything
		f.acquire(f.a, c)
		f.release(f.b)
		f.held(f.b, c)
		f.release(f.b) // after it was refused
		f.release(f.b)
		f.renew(f.a)
		f.held(f.b, c)
	}},
	{"release_twice", func(f *filterTest) {
		f.acquire(f.a, f.claim("node 7"))
		f.release(f.a)
		c := f.claim("node 8")
		f.acquire(f.b, c)
		f.release(f.a)
		f.renew(f.b)
		f.held(f.a, c)
	}},
	{"close_is_no_release", func(f *filterTest) {
		c := f.claim("node 7")
		f.acquire(f.a, c)
		f.a.Close()
		f.held(f.b, c)
	}},
	{"other_name", func(f *filterTest) {
		f.acquire(f.a, f.claim("node 7"))
		other := f.claim("node 8")
		other.Name += "-other"
		f.acquire(f.b, other)
		f.renew(f.a)
		f.renew(f.b)
	}},
	{"one_winner", func(f *filterTest) {
		won := 0
		for range 20 {
			errs := make([]error, 2)
			start := make(chan struct{})
			var wg sync.WaitGroup
			for i, x := range []locks.Filter{f.a, f.b} {
				c, ctx := f.claim("node 7"), f.ctx()
				wg.Go(func() {
					<-start
					errs[i] = x.Acquire(ctx, c)
				})
			}
			close(start)
			wg.Wait()
			if errs[0] == nil && errs[1] == nil {
				f.Fatal("two winners")
			}
			for i, x := range []locks.Filter{f.a, f.b} {
				var held *locks.HeldError
				var unavailable *locks.UnavailableError // a split vote
				switch err := errs[i]; {
				case err == nil:
					won++
					f.release(x)
				case !errors.As(err, &held) && !errors.As(err, &unavailable):
					f.Fatalf("acquire: %v", err)
				}
			}
		}
		if won == 0 {
			f.Fatal("no winner in any round")
		}
	}},
	{"wait_for_a_release", func(f *filterTest) {
		first, second := f.claim("node 7"), f.claim("node 8")
		f.acquire(f.a, first)
		held := f.held(f.b, first)
		ctx := f.ctx() // bounds the wait: it ends of the release, not of this
		waiting, done := make(chan struct{}), make(chan error, 1)
		go func() {
			close(waiting)
			for {
				if err := f.b.Wait(ctx, held); err != nil {
					done <- err
					return
				}
				if err := f.b.Acquire(ctx, second); !errors.As(err, &held) {
					done <- err
					return
				}
			}
		}()
		<-waiting
		f.release(f.a)
		if err := <-done; err != nil {
			f.Fatalf("waited in vain: %v", err)
		}
		f.held(f.a, second)
	}},
	{"wait_is_cut_off", func(f *filterTest) {
		c := f.claim("node 7")
		f.acquire(f.a, c)
		held := f.held(f.b, c)
		ctx, cancel := context.WithCancel(f.ctx())
		cancel()
		if err := f.b.Wait(ctx, held); !errors.Is(err, context.Canceled) {
			f.Fatalf("wait: %v", err)
		}
		f.held(f.b, c)
	}},
}
