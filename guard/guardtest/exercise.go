package guardtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"lockrun/guard"
	"lockrun/locks"
)

// Harness gives the suite one database that several stores share.
type Harness interface {
	// Store returns another store on the database. The suite closes it.
	Store(t *testing.T) guard.Store
	// Expire ends the lease of name a moment ago, by changing its row.
	Expire(t *testing.T, name string)
	// Lease reads the lease row of name; nil = there is none.
	Lease(t *testing.T, name string) *Lease
	// Run reads the guard row of name and date; nil = there is none. What
	// belongs to its attempt (Holder, Host, PID) may be left empty.
	Run(t *testing.T, name, date string) *guard.Run
	// Attempts reads the attempts of name in the order in which they were made.
	Attempts(t *testing.T, name string) []Attempt
}

// Exercise checks what every [guard.Store] promises. It calls open once for an
// empty database; each of its tests uses a name of its own there.
func Exercise(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	for _, group := range [][]test{acquireTests, doorTests, renewTests, finishTests, undoTests, contendTests} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				f := &fixture{h: h, T: t, name: fmt.Sprintf("%s-%d", c.name, serial.Add(1))}
				f.a, f.b = f.open(), f.open()
				c.run(f)
			})
		}
	}
}

// serial keeps the names of two runs in one database apart.
var serial atomic.Int64

type test struct {
	name string
	run  func(f *fixture)
}

const (
	theDate = "2026-03-01"
	theTTL  = time.Minute // no lease of the suite ends by itself
	patient = 30 * time.Second
)

// fixture is one test's job, with the stores of two hosts.
type fixture struct {
	*testing.T
	h    Harness
	name string
	a, b guard.Store
}

func (f *fixture) open() guard.Store {
	s := f.h.Store(f.T)
	f.Cleanup(s.Close)
	return s
}

func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), patient)
	f.Cleanup(cancel)
	return ctx
}

// request is a new attempt of the test's job.
func (f *fixture) request(date string, again ...string) *guard.Request {
	return &guard.Request{
		Name: f.name, Date: date, RunID: uuid.NewString(),
		Holder: "node 7", Host: "node-7.example", PID: 4711, OSUser: "batch",
		Command: []string{"./interest-batch", "--all"}, Version: "1.2.3", TTL: theTTL,
		Rerun: guard.Rerun{
			Failed:    slices.Contains(again, "failed"),
			Unknown:   slices.Contains(again, "unknown"),
			Succeeded: slices.Contains(again, "succeeded"),
		},
	}
}

func (f *fixture) acquire(s guard.Store, r *guard.Request) guard.Answer {
	f.Helper()
	a, err := s.Acquire(f.ctx(), r)
	if err != nil {
		f.Fatalf("acquire %q: %v", r.Date, err)
	}
	if a.At.IsZero() {
		f.Fatalf("the answer %+v does not tell the store's clock", a)
	}
	return a
}

// granted acquires and fails unless the run may start.
func (f *fixture) granted(s guard.Store, r *guard.Request) guard.Answer {
	f.Helper()
	a := f.acquire(s, r)
	if a.Verdict != guard.Granted || a.Token <= 0 || a.Held != nil || a.Prior != nil {
		f.Fatalf("acquire %q gave %+v, want a grant", r.Date, a)
	}
	return a
}

// refused acquires and fails unless the verdict is want.
func (f *fixture) refused(s guard.Store, r *guard.Request, want guard.Verdict) guard.Answer {
	f.Helper()
	a := f.acquire(s, r)
	if a.Verdict != want || a.Token != 0 || a.Attempt != 0 {
		f.Fatalf("acquire %q gave %+v, want verdict %d and nothing taken", r.Date, a, want)
	}
	if (want == guard.Held) != (a.Held != nil) {
		f.Fatalf("verdict %d with holder %v", want, a.Held)
	}
	if shut := want == guard.AlreadyDone || want == guard.WasFailed || want == guard.IsUnknown; shut != (a.Prior != nil) {
		f.Fatalf("verdict %d with row %+v", want, a.Prior)
	}
	return a
}

// nothing acquires for a run id that is over: an error, and no rows of it.
func (f *fixture) nothing(s guard.Store, r *guard.Request) {
	f.Helper()
	a, err := s.Acquire(f.ctx(), r)
	var unavailable *locks.UnavailableError
	if !errors.As(err, &unavailable) || a.Verdict != 0 {
		f.Fatalf("acquire of a run that is over gave %+v, %v, want an UnavailableError", a, err)
	}
	if f.live(r.RunID) {
		f.Fatal("a run that is over holds the lease")
	}
}

func (f *fixture) finish(s guard.Store, e *guard.End) {
	f.Helper()
	if err := s.Finish(f.ctx(), e); err != nil {
		f.Fatalf("finish: %v", err)
	}
}

func (f *fixture) undo(s guard.Store, r *guard.Request, reason string) {
	f.Helper()
	if err := s.Undo(f.ctx(), r, reason); err != nil {
		f.Fatalf("undo: %v", err)
	}
}

// now is the store's clock. Asking for it takes the lease of another job, or is
// refused it; either way the answer tells the time.
func (f *fixture) now() time.Time {
	f.Helper()
	probe := f.request("")
	probe.Name += "-clock"
	return f.acquire(f.b, probe).At
}

// live tells whether runID holds the lease, by the rows and the store's clock.
func (f *fixture) live(runID string) bool {
	f.Helper()
	l := f.lease()
	return l != nil && l.RunID == runID && l.ExpiresAt.After(f.now())
}

func (f *fixture) expire() {
	f.Helper()
	f.h.Expire(f.T, f.name)
}

func (f *fixture) lease() *Lease {
	f.Helper()
	return f.h.Lease(f.T, f.name)
}

func (f *fixture) guardRow(date string) *guard.Run {
	f.Helper()
	return f.h.Run(f.T, f.name, date)
}

func (f *fixture) attempts() []Attempt {
	f.Helper()
	return f.h.Attempts(f.T, f.name)
}

// attempt reads the row of one attempt.
func (f *fixture) attempt(runID string) Attempt {
	f.Helper()
	rows := f.attempts()
	i := slices.IndexFunc(rows, func(a Attempt) bool { return a.RunID == runID })
	if i < 0 {
		f.Fatalf("no attempt %s among %+v", runID, rows)
	}
	return rows[i]
}

// outcomes lists "number outcome" of all attempts, in order.
func (f *fixture) outcomes() []string {
	list := []string{}
	for _, a := range f.attempts() {
		list = append(list, fmt.Sprint(a.Attempt, " ", a.Outcome))
	}
	return list
}

// rows is all that is stored of the job.
type rows struct {
	Lease    *Lease
	Run      *guard.Run
	Attempts []Attempt
}

func (f *fixture) rows(date string) rows {
	return rows{f.lease(), f.guardRow(date), f.attempts()}
}

// unchanged fails when something was written since before was read.
func (f *fixture) unchanged(before rows, date string) {
	f.Helper()
	if after := f.rows(date); !reflect.DeepEqual(before, after) {
		f.Fatalf("the rows changed from\n%+v\n%+v\n%+v\nto\n%+v\n%+v\n%+v",
			before.Lease, before.Run, before.Attempts, after.Lease, after.Run, after.Attempts)
	}
}

// near compares a span of time that was stored with the one that was asked for.
// A store may read its clock more than once and keep no more than microseconds.
func (f *fixture) near(what string, got, want time.Duration) {
	f.Helper()
	if d := got - want; d < -time.Second || d > 5*time.Second {
		f.Fatalf("%s is %s, want %s", what, got, want)
	}
}

func code(n int) *int { return &n }

func ended(r *guard.Request, o guard.Outcome, exit *int, signal, reason string) *guard.End {
	return &guard.End{
		Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: o, ExitCode: exit, Signal: signal, Reason: reason,
	}
}

func succeeded(r *guard.Request) *guard.End {
	return ended(r, guard.OutcomeSucceeded, code(0), "", "")
}

func failed(r *guard.Request) *guard.End {
	return ended(r, guard.OutcomeFailed, code(3), "", "")
}
