package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/guard/outbox"
	"lockrun/locks"
)

// withOutbox gives the run an outbox, and returns its directory.
func (s *stage) withOutbox(t *testing.T) string {
	dir := t.TempDir()
	s.runner.Outbox = outbox.New(dir, "memory")
	return filepath.Join(dir, "outbox")
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var gone = guardtest.Fault{Skip: true, Err: &locks.UnavailableError{What: "Postgres", Err: os.ErrDeadlineExceeded}}

// The store is gone when the child ends and stays away for one ttl; the next run
// on the host finds it back.
func TestOutboxEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		dir := s.withOutbox(t)
		s.store.Script(guardtest.OnFinish, always(gone))
		if got := s.run(); got != (Result{Code: ExitUnrecorded}) {
			t.Fatalf("ended with %+v", got)
		}
		if took, ttl := s.took(), s.runner.Timing.TTL; took < ttl || took > ttl+s.runner.Timing.Call {
			t.Errorf("gave up after %s, want one ttl (%s) and at most one call more", took, ttl)
		}
		if s.filter.released == 0 {
			t.Error("the filter was not released")
		}
		kept := files(t, dir)
		if lines := s.lines(); len(kept) != 1 || len(lines) != 1 || lines[0].Kind != EventUnrecorded || !strings.Contains(lines[0].Note, kept[0]) {
			t.Fatalf("kept %v, printed %+v", kept, lines)
		}

		next := again(t, s, dir)
		next.store.Script(guardtest.OnFinish, nil)
		if got := next.run(); got != (Result{}) || next.lines()[0].Kind != EventDone || next.child.started {
			t.Fatalf("the next one ended with %+v, %+v", got, next.lines())
		}
		if len(files(t, dir)) != 0 || s.store.Run(testName, testDate).State != guard.Succeeded {
			t.Errorf("files %v, run %+v", files(t, dir), s.store.Run(testName, testDate))
		}
	})
}

// again is another run on the host and the store of the first.
func again(t *testing.T, s *stage, dir string) *stage {
	next := newStage(t)
	next.store, next.runner.Store = s.store, s.store
	next.spec.Request = request(otherID, next.runner.Timing.TTL)
	next.spec.NewRunID = func() string { return otherID }
	next.runner.Outbox = outbox.New(filepath.Dir(dir), "memory")
	return next
}

func TestOutboxLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		dir := s.withOutbox(t)
		s.child.runs = time.Hour
		s.store.Script(guardtest.OnRenew, always(guardtest.Fault{Skip: true, Err: locks.ErrLost}))
		s.store.Script(guardtest.OnFinish, always(gone))
		if got := s.run(); got != (Result{Code: ExitLost}) {
			t.Fatalf("ended with %+v", got)
		}
		lines := s.lines()
		if kept := files(t, dir); len(kept) != 1 || len(lines) != 1 || lines[0].Kind != EventLost || !strings.Contains(lines[0].Note, kept[0]) {
			t.Fatalf("kept %v, printed %+v", kept, lines)
		}
	})
}

// Nobody knows whether the acquire went through, and it can't be undone.
func TestOutboxNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		dir := s.withOutbox(t)
		s.store.Script(guardtest.OnAcquire, always(guardtest.Fault{Hang: true}))
		s.store.Script(guardtest.OnUndo, always(guardtest.Fault{Hang: true, Skip: true}))
		if got := s.run(); got != (Result{Code: ExitUnavailable}) {
			t.Fatalf("ended with %+v", got)
		}
		if kept := files(t, dir); len(kept) != 1 || !strings.Contains(s.lines()[0].Note, kept[0]) {
			t.Fatalf("kept %v, printed %+v", kept, s.lines())
		}
		s.store.Script(guardtest.OnAcquire, nil)
		s.store.Script(guardtest.OnUndo, nil)
		next := again(t, s, dir)
		if got := next.run(); got != (Result{}) || !next.child.started || len(files(t, dir)) != 0 {
			t.Fatalf("the next one ended with %+v, %+v", got, next.lines())
		}
	})
}

// A state directory that can't be written, a corrupt file, a store that does not
// take it: the run goes on, and says what a person has to look at.
func TestOutboxIsNoObstacle(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(t *testing.T, s *stage, dir string)
		lines int
	}{
		"corrupt": {func(t *testing.T, _ *stage, dir string) {
			if err := os.WriteFile(filepath.Join(dir, otherID+".json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 1},
		"refused": {func(t *testing.T, s *stage, _ string) {
			r := request("33333333-3333-4333-8333-333333333333", time.Minute)
			if _, err := s.runner.Outbox.KeepNotStarted(&r, "x", time.Now()); err != nil {
				t.Fatal(err)
			}
			s.store.Script(guardtest.OnUndo, always(gone))
		}, 0},
		"others_write": {func(t *testing.T, _ *stage, dir string) {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				dir := s.withOutbox(t)
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				c.set(t, s, dir)
				if got := s.run(); got != (Result{}) || !s.child.started {
					t.Fatalf("ended with %+v", got)
				}
				if lines := s.lines(); len(lines) != c.lines {
					t.Errorf("printed %+v", lines)
				}
			})
		})
	}
}

func TestOutboxCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.runner.Outbox = outbox.New(path, "memory")
		s.store.Script(guardtest.OnFinish, always(gone))
		if got := s.run(); got != (Result{Code: ExitUnrecorded}) || !strings.Contains(s.lines()[0].Note, "does not take it either") {
			t.Fatalf("ended with %+v, %+v", got, s.lines())
		}
	})
}

// Whoever loses at the first door never opens the store, for the outbox neither.
func TestOutboxOnlyBehindTheFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		dir := s.withOutbox(t)
		r := request("33333333-3333-4333-8333-333333333333", time.Minute)
		if _, err := s.runner.Outbox.KeepNotStarted(&r, "x", time.Now()); err != nil {
			t.Fatal(err)
		}
		s.filter.acquire = []error{&locks.HeldError{Tier: "quorum", By: locks.Holder{Text: "host-r"}}}
		if got := s.run(); got != (Result{Code: ExitHeld}) || s.store.Count(guardtest.OnUndo) != 0 || len(files(t, dir)) != 1 {
			t.Fatalf("ended with %+v, %d calls, files %v", got, s.store.Count(guardtest.OnUndo), files(t, dir))
		}
	})
}
