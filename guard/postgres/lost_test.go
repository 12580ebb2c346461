package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"lockrun/guard"
)

func TestAcquireAnswerLost(t *testing.T) {
	for _, c := range []struct {
		name string
		fate fate
		date string
	}{{"never_comes", mute, "2026-01-15"}, {"connection_cut", cut, "2026-01-15"}, {"undated", cut, ""}} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t)
			p, dsn := throughProxy(t, d.dsn)
			s := store(t, dsn)
			p.next(c.fate, 2)
			r := request("eod", c.date)
			a := granted(t, s, r)
			if n := p.left(); n != 0 {
				t.Fatalf("%d answers were not lost: the test shows nothing", n)
			}
			if token := d.text("SELECT token FROM lockrun.lease"); token != queryText(t, d.conn, "SELECT $1::bigint", a.Token) {
				t.Errorf("token %d, the row has %s", a.Token, token)
			}
			if a.Attempt != 1 || a.Token != 1<<32+1 || d.text("SELECT count(*) FROM lockrun.attempt") != "1" {
				t.Errorf("the repeated request got %+v, want the first token and one attempt", a)
			}
			if err := s.Renew(bounded(t, time.Second), r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAcquireCutForGood(t *testing.T) {
	d := newDatabase(t)
	p, dsn := throughProxy(t, d.dsn)
	s := store(t, dsn)
	p.next(mute, 1000)
	r := request("eod", "2026-01-15")
	ctx := bounded(t, 2500*time.Millisecond)
	_, err := s.Acquire(ctx, r)
	wantUnavailable(t, err, true, "Postgres at "+s.cfg.Address(), "no answer within ")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v does not match the end of its ctx", err)
	}
	if d.state("eod", "2026-01-15") != "running" || !d.live("eod") {
		t.Fatal("nothing was taken: the test shows nothing")
	}
	p.next(pass, 0)
	for range 2 {
		if err := s.Undo(bounded(t, 5*time.Second), r, "no answer"); err != nil {
			t.Fatal(err)
		}
		if d.state("eod", "2026-01-15") != "" || d.live("eod") || d.outcome(r.RunID) != "not_started" {
			t.Fatal("the undo left something behind")
		}
	}
	granted(t, s, again(r, guard.Rerun{}))
}

func TestAcquireArrivesAfterItsUndo(t *testing.T) {
	for _, before := range []string{"", "an earlier date"} {
		t.Run("first_acquisition_"+map[bool]string{true: "yes", false: "no"}[before == ""], func(t *testing.T) {
			d := newDatabase(t)
			direct := store(t, d.dsn)
			if before != "" {
				earlier := request("eod", "2026-01-14")
				granted(t, direct, earlier)
				finish(t, direct, earlier, guard.OutcomeSucceeded)
			}
			p, dsn := throughProxy(t, d.dsn)
			s := store(t, dsn)
			p.next(detain, 1000)
			r := request("eod", "2026-01-15")
			_, err := s.Acquire(bounded(t, 500*time.Millisecond), r)
			wantUnavailable(t, err, true)
			if err := direct.Undo(bounded(t, 5*time.Second), r, "no answer"); err != nil {
				t.Fatal(err)
			}
			_ = p.listener.Close() // so that all wires are known
			p.release()
			p.done.Wait() // every copy has reached the server and been answered
			if d.state("eod", "2026-01-15") != "" || d.live("eod") || d.outcome(r.RunID) != "not_started" {
				t.Error("a copy that arrived after the undo took something")
			}
		})
	}
}

// A verdict against the run does not end the copies of it that are under way.
func TestAcquireRefusedAfterLostAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, s *Store, r *guard.Request)
		want guard.Verdict
	}{
		{"held", func(*testing.T, *Store, *guard.Request) {}, guard.Held},
		{"done", func(t *testing.T, s *Store, r *guard.Request) { finish(t, s, r, guard.OutcomeSucceeded) }, guard.AlreadyDone},
		{"failed", func(t *testing.T, s *Store, r *guard.Request) { finish(t, s, r, guard.OutcomeFailed) }, guard.WasFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t)
			direct := store(t, d.dsn)
			other := request("eod", "2026-01-15")
			granted(t, direct, other)
			c.end(t, direct, other)
			p, dsn := throughProxy(t, d.dsn)
			p.next(cut, 1)
			r := again(other, guard.Rerun{})
			if a := acquire(t, store(t, dsn), r); a.Verdict != c.want {
				t.Fatalf("answer %+v, want %d", a, c.want)
			}
			if got := d.outcome(r.RunID); got != "not_started" {
				t.Errorf("the lost copy may still run: its attempt has the outcome %q", got)
			}
		})
	}
}

// What took nothing leaves nothing to be undone, even if the question why is lost.
func TestReasonLost(t *testing.T) {
	d := newDatabase(t)
	other := request("eod", "2026-01-15")
	granted(t, store(t, d.dsn), other)
	for _, f := range []fate{cut, mute} {
		p, dsn := throughProxy(t, d.dsn)
		p.mark = []byte("seen_since_us")
		p.next(f, 1)
		r := again(other, guard.Rerun{})
		if a := acquire(t, store(t, dsn), r); a.Verdict != guard.Held || a.Held.By.RunID != other.RunID {
			t.Errorf("answer %+v %v", a, a.Held)
		}
		if got := d.text("SELECT count(*) FROM lockrun.attempt"); got != "1" {
			t.Errorf("%s attempts are on record, want only the holder's", got)
		}
		p.mu.Lock()
		if p.times != 0 {
			t.Error("no question was lost")
		}
		p.mu.Unlock()
	}
	p, dsn := throughProxy(t, d.dsn)
	p.mark = []byte("seen_since_us")
	p.next(cut, 1000)
	_, err := store(t, dsn).Acquire(bounded(t, time.Second), again(other, guard.Rerun{}))
	wantUnavailable(t, err, false)
}

func TestCallsOnADeadConnection(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	granted(t, s, r)
	kill := func() {
		t.Helper()
		d.exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'lockrun' AND datname = current_database()")
	}
	kill()
	if err := s.Renew(bounded(t, time.Second), r); err != nil {
		t.Errorf("renew: %v", err)
	}
	kill()
	finish(t, s, r, guard.OutcomeSucceeded)
	kill()
	if err := s.Undo(bounded(t, time.Second), again(r, guard.Rerun{}), "why"); err != nil {
		t.Errorf("undo: %v", err)
	}
	kill()
	if a := acquire(t, s, again(r, guard.Rerun{})); a.Verdict != guard.AlreadyDone {
		t.Errorf("acquire: %+v", a)
	}
}
