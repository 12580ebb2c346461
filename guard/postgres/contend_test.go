package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// crowd asks with all stores at once and counts the verdicts.
func crowd(t *testing.T, stores []*Store, ask func(i int) *guard.Request) (count map[guard.Verdict]int, winner *guard.Request) {
	t.Helper()
	ctx := bounded(t, time.Minute)
	start := make(chan struct{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	count = map[guard.Verdict]int{}
	for i, s := range stores {
		r := ask(i)
		wg.Go(func() {
			<-start
			a, err := s.Acquire(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("contender %d: %v", i, err)
				return
			}
			count[a.Verdict]++
			if a.Verdict == guard.Granted {
				winner = r
			}
		})
	}
	close(start)
	wg.Wait()
	if count[guard.Granted] != 1 {
		t.Fatalf("verdicts %v, want exactly one grant", count)
	}
	return count, winner
}

// connected returns n stores with an open connection each.
func connected(t *testing.T, dsn string, n int) []*Store {
	t.Helper()
	stores := make([]*Store, n)
	for i := range stores {
		stores[i] = store(t, dsn)
		if err := stores[i].connect(bounded(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return stores
}

func TestContenders(t *testing.T) {
	d := newDatabase(t)
	stores := connected(t, d.dsn, 50)
	for _, c := range []struct {
		name    string
		rerun   guard.Rerun
		prepare func(name string)
		refused guard.Verdict
	}{
		{"no_row", guard.Rerun{}, func(string) {}, guard.Held},
		{"expired_row", guard.Rerun{}, func(name string) {
			granted(t, stores[0], request(name, "2026-01-14"))
			d.expire(name)
		}, guard.Held},
		{"rerun_of_failed", guard.Rerun{Failed: true}, func(name string) {
			r := request(name, "2026-01-15")
			granted(t, stores[0], r)
			finish(t, stores[0], r, guard.OutcomeFailed)
		}, guard.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range names(c.name, 20) {
				c.prepare(name)
				count, winner := crowd(t, stores, func(int) *guard.Request {
					r := request(name, "2026-01-15")
					r.Rerun = c.rerun
					return r
				})
				if count[c.refused] != len(stores)-1 {
					t.Fatalf("verdicts %v, want all others %d", count, c.refused)
				}
				if got := d.text("SELECT run_id FROM lockrun.run WHERE name = $1 AND run_date = '2026-01-15'", name); got != winner.RunID {
					t.Fatalf("guard row of %s, want the winner's", got)
				}
			}
		})
	}
}

// A winner that is quick: whoever waited for the row must not get a lease that
// it can't use, nor say anything but that the date is done.
func TestContendersOfAShortRun(t *testing.T) {
	d := newDatabase(t)
	stores := connected(t, d.dsn, 20)
	for _, name := range names("short", 20) {
		ctx, count := bounded(t, time.Minute), make([]int, guard.WrongDate+1)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, s := range stores {
			r := request(name, "2026-01-15")
			wg.Go(func() {
				a, err := s.Acquire(ctx, r)
				if err == nil && a.Verdict == guard.Granted {
					err = s.Finish(ctx, &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeSucceeded})
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				count[a.Verdict]++
			})
		}
		wg.Wait()
		if count[guard.Granted] != 1 || count[guard.Held]+count[guard.AlreadyDone] != len(stores)-1 {
			t.Fatalf("verdicts %v", count)
		}
		if d.live(name) || d.text("SELECT count(*) FROM lockrun.attempt WHERE name = $1", name) != "1" {
			t.Fatal("a refused contender left a live lease or an attempt")
		}
	}
}

func TestContendersThroughPgBouncer(t *testing.T) {
	pg := locktest.StartPostgres(t)
	d := initDatabase(t, pg.DSN("postgres"))
	bouncer := locktest.StartPgBouncer(t, pg, "postgres", "transaction", 3)
	stores := connected(t, bouncer.DSN(), 20)
	for day := range 20 {
		date := fmt.Sprintf("2026-01-%02d", day+1)
		count, winner := crowd(t, stores, func(int) *guard.Request { return request("eod", date) })
		if count[guard.Held] != len(stores)-1 {
			t.Fatalf("%s: verdicts %v, want all others held", date, count)
		}
		finish(t, stores[day], winner, guard.OutcomeSucceeded)
	}
	if n := d.text("SELECT count(*) FROM lockrun.run WHERE state = 'succeeded'"); n != "20" {
		t.Errorf("%s dates succeeded, want 20", n)
	}
	if n := d.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"); n != "0" {
		t.Errorf("%s advisory locks are left", n)
	}
	if n := d.text("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"); n != "0" {
		t.Errorf("%s sessions are idle in a transaction", n)
	}
}

func TestSameRunEightTimesAtOnce(t *testing.T) {
	d := newDatabase(t)
	stores := connected(t, d.dsn, 8)
	for _, name := range names("same", 20) {
		r := request(name, "2026-01-15")
		answers := make([]guard.Answer, len(stores))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() {
				var err error
				if answers[i], err = s.Acquire(ctx, r); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		cancel()
		for _, a := range answers {
			if a.Verdict != guard.Granted || a.Token != answers[0].Token || a.Attempt != 1 {
				t.Fatalf("answers %+v, want the same grant for all", answers)
			}
		}
	}
}
