package runner

import (
	"context"
	"testing"
	"testing/synctest"

	"lockrun/guard/guardtest"
)

// tellingFilter tells when it is given back.
type tellingFilter struct {
	*fakeFilter
	released chan struct{}
}

func (f *tellingFilter) Release(ctx context.Context) error {
	defer close(f.released)
	return f.fakeFilter.Release(ctx)
}

// The filter is given back while the record is made: each of them would wait a
// round trip for the other.
func TestReleaseBesideRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		f := &tellingFilter{s.filter, make(chan struct{})}
		s.runner.Filter = f
		s.store.Script(guardtest.OnFinish, func(ctx context.Context) guardtest.Fault {
			select {
			case <-f.released:
				return guardtest.Fault{}
			case <-ctx.Done():
				return guardtest.Fault{Skip: true, Err: ctx.Err()}
			}
		})
		if got := s.run(); got != (Result{}) {
			t.Errorf("result %+v", got)
		}
		if n := s.store.Count(guardtest.OnFinish); n != 1 {
			t.Errorf("the record was made in %d calls, want 1", n)
		}
	})
}
