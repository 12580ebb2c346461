package guardtest

import (
	"sync"
	"sync/atomic"
	"time"

	"lockrun/guard"
)

// contenders is how many hosts wake up together in the tests.
const contenders = 20

var contendTests = []test{
	{"contend_for_a_new_date", func(f *fixture) {
		f.contend(func() *guard.Request { return f.request(theDate) }, 1)
	}},
	{"contend_undated", func(f *fixture) {
		f.contend(func() *guard.Request { return f.request("") }, 1)
	}},
	{"contend_for_a_rerun", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		f.finish(f.a, failed(r))
		f.contend(func() *guard.Request { return f.request(theDate, "failed") }, 2)
	}},
	{"contend_for_an_unknown", func(f *fixture) {
		f.granted(f.a, f.request(theDate))
		f.expire()
		f.contend(func() *guard.Request { return f.request(theDate, "unknown") }, 2)
	}},
	{"tokens_grow", func(f *fixture) {
		var last int64
		for i := range 9 {
			r := f.request("")
			a := f.granted([]guard.Store{f.a, f.b}[i%2], r)
			if a.Token <= last {
				f.Fatalf("token %d after %d", a.Token, last)
			}
			last = a.Token
			switch i % 3 {
			case 0:
				f.finish(f.a, succeeded(r))
			case 1:
				f.undo(f.a, r, "never started")
			case 2:
				f.expire()
			}
			if l := f.lease(); l.Token != last {
				f.Fatalf("the lease's end changed token %d to %d", last, l.Token)
			}
		}
	}},
	{"one_at_a_time", func(f *fixture) {
		const hosts, turns = 4, 5
		var inside, last atomic.Int64
		ctx := f.ctx()
		var wg sync.WaitGroup
		for range hosts {
			s := f.open()
			wg.Go(func() {
				for done := 0; done < turns; {
					r := f.request("")
					a, err := s.Acquire(ctx, r)
					if err != nil {
						f.Errorf("acquire: %v", err)
						return
					}
					if a.Verdict != guard.Granted {
						pause(ctx.Done(), 5*time.Millisecond)
						continue
					}
					if n := inside.Add(1); n != 1 {
						f.Errorf("%d holders at once", n)
					}
					if before := last.Swap(a.Token); before >= a.Token {
						f.Errorf("token %d after %d", a.Token, before)
					}
					inside.Add(-1)
					if err := s.Finish(ctx, succeeded(r)); err != nil {
						f.Errorf("finish: %v", err)
						return
					}
					done++
				}
			})
		}
		wg.Wait()
		if got := len(f.attempts()); got != hosts*turns && !f.Failed() {
			f.Fatalf("%d attempts, want %d", got, hosts*turns)
		}
	}},
	{"used_again_after_close", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		f.a.Close()
		f.a.Close()
		if err := f.a.Renew(f.ctx(), r); err != nil {
			f.Fatalf("renew: %v", err)
		}
		if !f.live(r.RunID) {
			f.Fatal("closing a store released the lease")
		}
		f.a.Close()
		f.finish(f.a, succeeded(r))
	}},
}

// contend sends many hosts for the lease at once: one gets it, as that attempt,
// and all the others learn who has it.
func (f *fixture) contend(request func() *guard.Request, attempt int) {
	f.Helper()
	requests := make([]*guard.Request, contenders)
	answers := make([]guard.Answer, contenders)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range contenders {
		s, ctx := f.open(), f.ctx()
		requests[i] = request()
		wg.Go(func() {
			<-start
			var err error
			if answers[i], err = s.Acquire(ctx, requests[i]); err != nil {
				f.Errorf("contender %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	winner := -1
	for i, a := range answers {
		if a.Verdict == guard.Granted {
			if winner >= 0 {
				f.Fatalf("two winners: %+v and %+v", answers[winner], a)
			}
			winner = i
		}
	}
	if winner < 0 || answers[winner].Attempt != attempt || !f.live(requests[winner].RunID) {
		f.Fatalf("winner %d of %+v", winner, answers)
	}
	for i, a := range answers {
		if i != winner && (a.Verdict != guard.Held || a.Held.By.RunID != requests[winner].RunID) {
			f.Fatalf("contender %d got %+v, held by %v", i, a, a.Held)
		}
	}
	if got := len(f.attempts()); got != attempt {
		f.Fatalf("%d attempts, want %d", got, attempt)
	}
}

// pause lets others go on for a moment.
func pause(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}
