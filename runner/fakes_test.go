package runner

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks"
	"lockrun/locks/locktest"
	"lockrun/runner/supervise"
)

// fakeChild is a child in virtual time: it runs for a while and obeys SIGTERM
// or not.
type fakeChild struct {
	clock    locks.Clock
	runs     time.Duration
	status   supervise.Status
	refuse   error         // Start fails with it
	ignores  bool          // SIGTERM
	winds    time.Duration // from SIGTERM to its end
	stuck    bool          // survives SIGKILL
	unseen   bool          // nobody sees how it ends
	leaves   time.Duration // how long what it leaves runs on; 0 = it leaves nothing
	events   chan supervise.Event
	mu       sync.Mutex
	started  bool
	vars     []string
	deadline locks.Instant
	termAt   locks.Instant
	ended    locks.Instant
	signals  []syscall.Signal
	end      chan struct{}
	why      error // of Terminate
	once     sync.Once
}

func (c *fakeChild) Events() <-chan supervise.Event { return c.events }
func (c *fakeChild) Close()                         { c.once.Do(func() { close(c.events) }) }

func (c *fakeChild) Start(vars []string, killAt locks.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vars, c.deadline = vars, killAt
	if c.refuse != nil {
		go func() {
			c.events <- supervise.Event{Kind: supervise.NotStarted, Err: c.refuse}
			c.Close()
		}()
		return
	}
	c.started = true
	c.end = make(chan struct{})
	go c.live()
}

func (c *fakeChild) live() {
	c.events <- supervise.Event{Kind: supervise.Started, PID: 4242}
	t := time.NewTimer(c.runs)
	defer t.Stop()
	status := c.status
	select {
	case <-t.C:
		if c.leaves > 0 {
			c.outlive()
			return
		}
	case <-c.end:
		c.events <- supervise.Event{Kind: supervise.TermSent}
		c.mu.Lock()
		kill := c.deadline.Sub(c.clock.Now())
		c.mu.Unlock()
		if !c.ignores && c.winds < kill {
			time.Sleep(c.winds)
			status = supervise.Status{Signal: syscall.SIGTERM}
		} else {
			time.Sleep(max(kill, 0))
			c.events <- supervise.Event{Kind: supervise.KillSent}
			status = supervise.Status{Signal: syscall.SIGKILL}
		}
		if c.stuck {
			c.events <- supervise.Event{Kind: supervise.Stuck, PIDs: []int{4242}}
			c.Close()
			return
		}
	}
	c.mu.Lock()
	c.ended = c.clock.Now()
	c.mu.Unlock()
	if !c.unseen {
		c.events <- supervise.Event{Kind: supervise.Exited, Status: status}
	}
	c.events <- supervise.Event{Kind: supervise.Empty}
	c.Close()
}

// outlive is what comes after a child that leaves something.
func (c *fakeChild) outlive() {
	c.events <- supervise.Event{Kind: supervise.Exited, Status: c.status}
	c.events <- supervise.Event{Kind: supervise.Leftovers, Count: 1}
	t := time.NewTimer(c.leaves)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.end:
		c.events <- supervise.Event{Kind: supervise.TermSent, Err: c.why}
		if c.stuck {
			c.events <- supervise.Event{Kind: supervise.Stuck}
			c.Close()
			return
		}
	}
	c.events <- supervise.Event{Kind: supervise.Empty}
	c.Close()
}

func (c *fakeChild) Extend(killAt locks.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.termAt == 0 {
		c.deadline = killAt
	}
}

func (c *fakeChild) Terminate(killAt locks.Instant, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.termAt == 0 {
		c.why = err
		c.termAt, c.deadline = c.clock.Now(), min(killAt, c.deadline)
		close(c.end)
	}
}

func (c *fakeChild) Signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signals = append(c.signals, sig)
}

// fakeFilter is a first door that answers as it is told.
type fakeFilter struct {
	acquire  []error // answers in turn; the last one stays
	renew    func(context.Context) error
	pause    time.Duration // of Wait; 0 = a second
	asked    int
	waits    int
	released int
	mine     bool
}

func (f *fakeFilter) Acquire(context.Context, locks.Claim) error {
	var err error
	if len(f.acquire) > 0 {
		err = f.acquire[min(f.asked, len(f.acquire)-1)]
	}
	f.asked++
	f.mine = err == nil
	return err
}

func (f *fakeFilter) Renew(ctx context.Context) error {
	if f.renew != nil {
		return f.renew(ctx)
	}
	return nil
}

func (f *fakeFilter) Release(context.Context) error { f.released++; f.mine = false; return nil }
func (f *fakeFilter) Close()                        {}

func (f *fakeFilter) Wait(ctx context.Context, _ *locks.HeldError) error {
	f.waits++
	t := time.NewTimer(max(f.pause, time.Second))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stage is everything that one run needs, and what it did.
type stage struct {
	clock   locktest.Clock
	store   *guardtest.Memory
	filter  *fakeFilter
	child   *fakeChild
	signals chan os.Signal
	runner  *Runner
	spec    Spec
	events  []Event
	begun   locks.Instant
}

const (
	testName = "eod"
	testDate = "2026-01-15"
	testID   = "11111111-1111-4111-8111-111111111111"
	otherID  = "22222222-2222-4222-8222-222222222222"
)

func newStage(t *testing.T) *stage {
	t.Helper()
	timing, err := locks.NewTiming(30*time.Second, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	date, err := guard.ParseDate(testDate)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{clock: locktest.NewClock(), store: guardtest.NewMemory(), filter: &fakeFilter{}, signals: make(chan os.Signal, 8)}
	s.child = &fakeChild{clock: s.clock, runs: time.Second, events: make(chan supervise.Event)}
	s.begun = s.clock.Now()
	s.runner = &Runner{
		Filter: s.filter, FilterName: "quorum", Store: s.store, NewChild: func() (Child, error) { return s.child, nil }, Clock: s.clock, Timing: timing,
		Signals: s.signals, Report: func(e Event) { s.events = append(s.events, e) },
	}
	s.spec = Spec{
		Request: request("", timing.TTL), NewRunID: func() string { return testID }, Date: date, Zone: time.UTC,
		Started: s.begun, StartedWall: time.Now(), HeldCode: ExitHeld,
	}
	return s
}

func request(runID string, ttl time.Duration) guard.Request {
	name := "1"
	if runID == otherID {
		name = "2"
	}
	return guard.Request{
		Name: testName, RunID: runID, Holder: "host-" + name, Host: "host-" + name, PID: 7,
		OSUser: "batch", Command: []string{"job"}, Version: "test", TTL: ttl,
	}
}

// other makes another run's attempt of the date, ended as told ("" = running).
func (s *stage) other(t *testing.T, outcome guard.Outcome) {
	t.Helper()
	r := request(otherID, time.Minute)
	r.Date = testDate
	ctx := context.Background()
	if a, err := s.store.Acquire(ctx, &r); err != nil || a.Verdict != guard.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	if outcome != "" {
		code := 3
		if err := s.store.Finish(ctx, &guard.End{Name: testName, Date: testDate, RunID: otherID, Outcome: outcome, ExitCode: &code}); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *stage) run() Result { return s.runner.Run(s.spec) }

func (s *stage) took() time.Duration { return s.clock.Now().Sub(s.begun) }

// lines are the events that the default level prints.
func (s *stage) lines() []Event {
	var shown []Event
	for _, e := range s.events {
		if e.Level <= Warn {
			shown = append(shown, e)
		}
	}
	return shown
}
