// Package guardtest has what tests need of a guard store: one in memory with a
// fault script, and the contract suite that every store passes. Production code
// must not import it.
package guardtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// Call is a kind of call to a [Memory].
type Call int

// The calls that a fault script can be given for.
const (
	OnAcquire Call = iota
	OnRenew
	OnFinish
	OnUndo
	calls
)

// Fault is what goes wrong with one call; the zero value is a call that works.
// Err with Skip is a request that was refused, Err without Skip one whose reply
// was lost; the same goes for Hang.
type Fault struct {
	Delay time.Duration // before the call is applied; a ctx that ends first leaves it unapplied
	Skip  bool          // the call is not applied
	Hang  bool          // no reply until ctx ends
	Err   error         // the reply, instead of the true one
}

// Memory is a [guard.Store] without a database, for tests of what uses one. Any
// number of goroutines may share it. Its clock is time.Now, so that it works in
// a bubble of testing/synctest.
type Memory struct {
	// Skew is what its clock is ahead of the host's. Set it before the first use.
	Skew time.Duration

	mu       sync.Mutex
	leases   map[string]*Lease
	runs     map[[2]string]*guard.Run
	attempts []*Attempt
	hooks    [calls]func(context.Context) Fault
	count    [calls]int
}

var _ guard.Store = (*Memory)(nil)

// NewMemory returns an empty store without faults.
func NewMemory() *Memory {
	return &Memory{leases: map[string]*Lease{}, runs: map[[2]string]*guard.Run{}}
}

// Script makes hook decide about each call of that kind from now on; nil ends
// the faults. The hook runs in the caller's goroutine, with the call's own ctx.
func (m *Memory) Script(kind Call, hook func(ctx context.Context) Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks[kind] = hook
}

// Count tells how many calls of that kind were made.
func (m *Memory) Count(kind Call) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count[kind]
}

// Acquire implements [guard.Store]. It tries once.
func (m *Memory) Acquire(ctx context.Context, r *guard.Request) (guard.Answer, error) {
	var a guard.Answer
	err := m.call(ctx, OnAcquire, func(now time.Time) (err error) {
		a, err = m.acquire(r, now)
		return err
	})
	if err != nil {
		return guard.Answer{}, err
	}
	return a, nil
}

// Renew implements [guard.Store].
func (m *Memory) Renew(ctx context.Context, r *guard.Request) error {
	return m.call(ctx, OnRenew, func(now time.Time) error {
		l := m.leases[r.Name]
		if l == nil || l.RunID != r.RunID || !l.ExpiresAt.After(now) {
			return locks.ErrLost
		}
		l.RenewedAt, l.ExpiresAt = now, now.Add(r.TTL)
		return nil
	})
}

// Finish implements [guard.Store].
func (m *Memory) Finish(ctx context.Context, e *guard.End) error {
	return m.call(ctx, OnFinish, func(now time.Time) error {
		if m.attempt(e.RunID) == nil {
			return &locks.SetupError{What: "memory store", Err: &guard.NoRunError{Why: "has no record of run " + e.RunID}}
		}
		m.finish(e, now)
		return nil
	})
}

// Connect implements [guard.Store].
func (m *Memory) Connect(context.Context) {}

// Undo implements [guard.Store].
func (m *Memory) Undo(ctx context.Context, r *guard.Request, reason string) error {
	return m.call(ctx, OnUndo, func(now time.Time) error {
		m.undo(r, reason, now)
		return nil
	})
}

// Close implements [guard.Store]; there is nothing to drop.
func (m *Memory) Close() {}

// call runs apply as the fault script says.
func (m *Memory) call(ctx context.Context, kind Call, apply func(now time.Time) error) error {
	m.mu.Lock()
	m.count[kind]++
	hook := m.hooks[kind]
	m.mu.Unlock()
	var f Fault
	if hook != nil {
		f = hook(ctx)
	}
	if f.Delay > 0 {
		_ = locks.Sleep(ctx, f.Delay)
	}
	if ctx.Err() != nil {
		return unanswered(ctx, kind)
	}
	var err error
	if !f.Skip {
		m.mu.Lock()
		err = apply(time.Now().Add(m.Skew).UTC())
		m.mu.Unlock()
	}
	if f.Hang {
		<-ctx.Done()
		return unanswered(ctx, kind)
	}
	if f.Err != nil {
		return f.Err
	}
	return err
}

// unanswered is all that a caller can know of a call whose reply never came.
func unanswered(ctx context.Context, kind Call) error {
	return &locks.UnavailableError{What: "memory store", Err: ctx.Err(), Taken: kind == OnAcquire}
}

// Expire ends the lease of name, as if it had not been renewed in time.
func (m *Memory) Expire(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.leases[name]; l != nil {
		l.ExpiresAt = time.Now().Add(m.Skew - time.Second)
	}
}

// Lease returns the lease row of name, or nil.
func (m *Memory) Lease(name string) *Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.leases[name]; l != nil {
		row := *l
		return &row
	}
	return nil
}

// Run returns the guard row of name and date, or nil.
func (m *Memory) Run(name, date string) *guard.Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.row(m.runs[[2]string{name, date}])
}

// Attempts returns the attempts of name, oldest first.
func (m *Memory) Attempts(name string) []Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []Attempt
	for _, a := range m.attempts {
		if a.Name == name {
			rows = append(rows, *a)
		}
	}
	return rows
}

// attempt returns the attempt of that run id, or nil.
func (m *Memory) attempt(runID string) *Attempt {
	i := slices.IndexFunc(m.attempts, func(a *Attempt) bool { return a.RunID == runID })
	if i < 0 {
		return nil
	}
	return m.attempts[i]
}

// row copies a guard row and adds what its attempt knows.
func (m *Memory) row(run *guard.Run) *guard.Run {
	if run == nil {
		return nil
	}
	row := *run
	if a := m.attempt(run.RunID); a != nil {
		row.Holder, row.Host, row.PID = a.Holder, a.Host, a.PID
	}
	return &row
}

func errOver(runID string) error {
	return &locks.UnavailableError{What: "run " + runID, Err: errors.New("it has already ended or been undone")}
}
