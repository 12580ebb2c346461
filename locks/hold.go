package locks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Keep is a tier that was acquired and is to be kept.
type Keep struct {
	Name string // for people: "quorum", "lease", "file lock"
	// Renew asks once for another ttl and obeys its context, which may serve later
	// calls too: what is to end with the call, the call ends. See [Filter.Renew].
	Renew func(context.Context) error
	// Sent is when the request went out that acquired the tier.
	Sent Instant
	// Optional tiers may close without ending the run (--quorum preferred).
	// Another's value in one of them ends it all the same.
	Optional bool
}

// Hold keeps tiers renewed until [Hold.Stop] and tells what that means for the
// run. It goes on renewing after it has told that the run is lost: the locks
// must outlast the child.
type Hold struct {
	clock   Clock
	timing  Timing
	updates chan Update
	results chan result
	stop    chan struct{}
	calls   context.Context // what the renewals' contexts end with
	cancel  context.CancelFunc
	loops   sync.WaitGroup
	judged  chan struct{}
	once    sync.Once
}

type result struct {
	tier int
	sent Instant
	err  error
}

// stopPatience is how long Stop lets a renewal in flight come home: cancelling
// it would cost the connection that the record of the run needs next.
const stopPatience = 200 * time.Millisecond

// NewHold starts to keep the given tiers, at least one of which is not optional.
func NewHold(clock Clock, t Timing, keeps ...Keep) *Hold {
	h := &Hold{
		clock: clock, timing: t,
		updates: make(chan Update), results: make(chan result),
		stop: make(chan struct{}), judged: make(chan struct{}),
	}
	h.calls, h.cancel = context.WithCancel(context.Background())
	for i, k := range keeps {
		h.loops.Add(1)
		go func() {
			defer h.loops.Done()
			h.keep(i, k)
		}()
	}
	go h.judge(newJudge(t, keeps))
	return h
}

// Updates tells what happens. It is closed by Stop.
func (h *Hold) Updates() <-chan Update { return h.updates }

// Stop ends the renewals and returns when none is in flight any more.
func (h *Hold) Stop() {
	h.once.Do(func() {
		close(h.stop)
		late := time.AfterFunc(min(stopPatience, h.timing.Call), h.cancel)
		h.loops.Wait()
		late.Stop()
		h.cancel()
		<-h.judged
	})
}

// judge is the goroutine that owns the judge.
func (h *Hold) judge(j *judge) {
	defer close(h.judged)
	defer close(h.updates)
	alarm := h.clock.NewAlarm()
	defer alarm.Stop()
	for {
		alarm.Set(j.next())
		var out chan<- Update
		var head Update
		if len(j.news) > 0 {
			out, head = h.updates, j.news[0]
		}
		select {
		case out <- head:
			j.news = slices.Delete(j.news, 0, 1) // keeps its room
		case <-alarm.C():
			j.tick(h.clock.Now())
		case r := <-h.results:
			now := h.clock.Now()
			j.tick(now)
			if r.err == nil {
				j.granted(r.tier, r.sent, now)
			} else {
				j.failed(r.tier, r.err, now)
			}
		case <-h.stop:
			return
		}
	}
}

// keep renews one tier for as long as that makes sense: until it is lost for
// certain or its window has closed. A closed window is never opened again.
func (h *Hold) keep(tier int, k Keep) {
	alarm := h.clock.NewAlarm()
	defer alarm.Stop()
	calls := calls{parent: h.calls}
	defer calls.close()
	retry := newRetry(h.timing)
	due := k.Sent.Add(h.timing.RenewEvery)
	end := h.timing.WindowEnd(k.Sent)
	for {
		if !h.sleepUntil(alarm, due) {
			return
		}
		sent := h.clock.Now()
		if sent >= end {
			return
		}
		err := k.Renew(calls.begin(min(h.timing.Call, end.Sub(sent))))
		calls.end()
		arrived := h.clock.Now()
		if err == nil && arrived >= end {
			err = errors.New("the answer came after the window had closed")
		}
		select {
		case h.results <- result{tier, sent, err}:
		case <-h.stop:
			return
		}
		switch {
		case err == nil:
			due, end = sent.Add(h.timing.RenewEvery), h.timing.WindowEnd(sent)
			retry.Reset()
		case errors.Is(err, ErrLost):
			return
		default:
			due = arrived.Add(retry.NextBackOff())
		}
	}
}

// sleepUntil returns false when the hold is stopped first.
func (h *Hold) sleepUntil(alarm Alarm, at Instant) bool {
	for h.clock.Now() < at {
		alarm.Set(at)
		select {
		case <-alarm.C():
		case <-h.stop:
			return false
		}
	}
	select {
	case <-h.stop:
		return false
	default:
		return true
	}
}

// newRetry paces the repeats of a failed renewal: several fit between the first
// failure and SIGTERM, and two hosts do not keep step.
func newRetry(t Timing) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(max(t.RenewEvery/40, 5*time.Millisecond)),
		backoff.WithMaxInterval(t.RenewEvery/6),
		backoff.WithMaxElapsedTime(0), // the window's end is the bound, not backoff's own clock
	)
}
