package outbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks"
)

const date = "2026-07-01"

func request() *guard.Request {
	return &guard.Request{
		Name: "eod", Date: date, RunID: uuid.NewString(), Holder: "node 7", Host: "node-7", PID: 4711, OSUser: "batch",
		Command: []string{"job", "--all", "\x1b\xff"}, Version: "1", TTL: time.Minute,
	}
}

func start(t *testing.T, s guard.Store, r *guard.Request) {
	t.Helper()
	if a, err := s.Acquire(t.Context(), r); err != nil || a.Verdict != guard.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
}

func end(r *guard.Request, o guard.Outcome) *guard.End {
	code := 0
	return &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: o, ExitCode: &code, AtLeast: 1500 * time.Millisecond}
}

func keep(t *testing.T, b *Box, e *guard.End) string {
	t.Helper()
	path, err := b.KeepEnd(e, time.Date(2026, 7, 1, 2, 3, 4, 5, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// send sends and returns what became of the only file.
func send(t *testing.T, b *Box, s guard.Store) Sent {
	t.Helper()
	all, err := b.Send(t.Context(), s)
	if err != nil || len(all) != 1 {
		t.Fatalf("sent %+v, %v", all, err)
	}
	return all[0]
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestEnd(t *testing.T) {
	b, s, r := New(filepath.Join(t.TempDir(), "a", "state"), "db"), guardtest.NewMemory(), request()
	if all, err := b.Send(t.Context(), s); len(all) != 0 || err != nil {
		t.Fatalf("no outbox: %+v, %v", all, err)
	}
	start(t, s, r)
	path := keep(t, b, end(r, guard.OutcomeSucceeded))
	if filepath.Base(path) != r.RunID+".json" {
		t.Errorf("file %s", path)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", p, info.Mode(), err, want)
		}
	}
	if got := send(t, b, s); got.Err != nil || got.Name != "eod" || got.Date != date || got.RunID != r.RunID || got.Outcome != guard.OutcomeSucceeded || there(path) {
		t.Fatalf("sent %+v", got)
	}
	a := s.Attempts("eod")[0]
	if run := s.Run("eod", date); run.State != guard.Succeeded || a.Outcome != guard.OutcomeSucceeded || *a.ExitCode != 0 || !strings.Contains(a.Reason, "2026-07-01T02:03:04Z") {
		t.Fatalf("run %+v, attempt %+v", run, a)
	}
	if l := s.Lease("eod"); l.ExpiresAt.Sub(l.AcquiredAt) != 1500*time.Millisecond {
		t.Errorf("lease %+v", l)
	}
}

func TestNotStarted(t *testing.T) {
	b, s, r := New(t.TempDir(), "db"), guardtest.NewMemory(), request()
	start(t, s, r)
	path, err := b.KeepNotStarted(r, "cut off", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := send(t, b, s); got.Err != nil || got.Outcome != guard.OutcomeNotStarted || there(path) {
		t.Fatalf("sent %+v", got)
	}
	if s.Run("eod", date) != nil {
		t.Fatal("the date is still taken")
	}
	never := request() // and its acquire comes afterwards
	if _, err := b.KeepNotStarted(never, "cut off", time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := send(t, b, s); got.Err != nil {
		t.Fatal(got.Err)
	}
	if _, err := s.Acquire(t.Context(), never); err == nil {
		t.Fatal("a run that was undone has begun")
	}
	if a := s.Attempts("eod")[1]; a.Host != never.Host || a.Command[1] != "--all" || !strings.HasPrefix(a.Reason, "cut off; stored late") {
		t.Errorf("attempt %+v", a)
	}
}

// What is old news changes nothing, and its file goes.
func TestNewerAttempt(t *testing.T) {
	b, s, old, newer := New(t.TempDir(), "db"), guardtest.NewMemory(), request(), request()
	start(t, s, old)
	s.Expire("eod")
	newer.Rerun.Unknown = true
	start(t, s, newer)
	path := keep(t, b, end(old, guard.OutcomeFailed))
	if got := send(t, b, s); got.Err != nil || there(path) {
		t.Fatalf("sent %+v", got)
	}
	if run, l := s.Run("eod", date), s.Lease("eod"); run.State != guard.Running || run.RunID != newer.RunID || l.RunID != newer.RunID || !l.ExpiresAt.After(time.Now()) {
		t.Fatalf("run %+v, lease %+v", run, l)
	}
}

func TestKept(t *testing.T) {
	away := &locks.UnavailableError{What: "db", Err: errors.New("gone")}
	setup := &locks.SetupError{What: "db", Err: errors.New("the attempt is not there")}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		store string
		fault error
		want  func(error) bool
	}{
		"store_away":    {fault: away, want: func(err error) bool { return errors.Is(err, away) }},
		"store_refuses": {fault: setup, want: func(err error) bool { return errors.Is(err, setup) }},
		"other_store":   {store: "another", want: func(err error) bool { return errors.Is(err, ErrOtherStore) }},
		"empty":         {spoil: write(""), want: corrupt("")},
		"cut_off":       {spoil: func(t *testing.T, path string) { truncate(t, path, 40) }, want: corrupt("no entry")},
		"two_entries":   {spoil: double, want: corrupt("no entry")},
		"other_json":    {spoil: write(`{"format":1,"surprise":true}`), want: corrupt("no entry")},
		"newer_format":  {spoil: replace(`"format": 1`, `"format": 2`), want: corrupt("format 2")},
		"no_outcome":    {spoil: replace(`"succeeded"`, `"running"`), want: corrupt("no entry")},
		"other_run":     {spoil: replace(`"run_id": "`, `"run_id": "00000000-0000-4000-8000-000000000000", "x": "`), want: corrupt("")},
		"other_name":    {spoil: rename, want: corrupt("another run")},
		"binary":        {spoil: write("\x00\xff\x1b[2J"), want: corrupt("")},
		"others_write":  {spoil: func(t *testing.T, path string) { must(t, os.Chmod(path, 0o622)) }, want: corrupt("others can write")},
		"symbolic_link": {spoil: link, want: corrupt("regular file")},
		"directory":     {spoil: func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) }, want: corrupt("regular file")},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s, r := t.TempDir(), guardtest.NewMemory(), request()
			start(t, s, r)
			store := c.store
			if store == "" {
				store = "db"
			}
			path := keep(t, New(dir, store), end(r, guard.OutcomeSucceeded))
			if c.spoil != nil {
				c.spoil(t, path)
			}
			if c.fault != nil {
				s.Script(guardtest.OnFinish, func(context.Context) guardtest.Fault { return guardtest.Fault{Skip: true, Err: c.fault} })
			}
			got := send(t, New(dir, "db"), s)
			if !c.want(got.Err) || !there(got.Path) {
				t.Fatalf("sent %+v", got)
			}
			if run := s.Run("eod", date); run.State != guard.Running {
				t.Fatalf("it was stored: %+v", run)
			}
		})
	}
}

func corrupt(text string) func(error) bool {
	return func(err error) bool {
		var c *CorruptError
		return errors.As(err, &c) && strings.Contains(err.Error(), text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
}

func replace(old, with string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		text, err := os.ReadFile(path)
		must(t, err)
		if !strings.Contains(string(text), old) {
			t.Fatalf("no %q in %s", old, text)
		}
		write(strings.Replace(string(text), old, with, 1))(t, path)
	}
}

func truncate(t *testing.T, path string, n int64) { must(t, os.Truncate(path, n)) }

func double(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	must(t, err)
	write(string(text)+string(text))(t, path)
}

func rename(t *testing.T, path string) {
	must(t, os.Rename(path, filepath.Join(filepath.Dir(path), uuid.NewString()+".json")))
}

func link(t *testing.T, path string) {
	must(t, os.Rename(path, path+".real"))
	must(t, os.Symlink(path+".real", path))
}

// A crash in the middle of writing leaves a part; a writer at work has one too.
func TestHalfWritten(t *testing.T) {
	b, s, r := New(t.TempDir(), "db"), guardtest.NewMemory(), request()
	path := keep(t, b, end(r, guard.OutcomeSucceeded)) + ".part"
	must(t, os.Rename(strings.TrimSuffix(path, ".part"), path))
	if all, err := b.Send(t.Context(), s); len(all) != 0 || err != nil {
		t.Fatalf("a file that is being written: %+v, %v", all, err)
	}
	old := time.Now().Add(-2 * time.Minute)
	must(t, os.Chtimes(path, old, old))
	if got := send(t, b, s); !corrupt("to its end")(got.Err) || !there(path) {
		t.Fatalf("sent %+v", got)
	}
}

// A corrupt file does not keep the others back, a store that is away does.
func TestOrder(t *testing.T) {
	b, s := New(t.TempDir(), "db"), guardtest.NewMemory()
	var paths []string
	for i := range 3 {
		r := request()
		r.Name = "job-" + r.RunID
		start(t, s, r)
		paths = append(paths, keep(t, b, end(r, guard.OutcomeSucceeded)))
		at := time.Now().Add(time.Duration(i-10) * time.Second)
		must(t, os.Chtimes(paths[i], at, at))
	}
	truncate(t, paths[0], 3)
	must(t, os.Chtimes(paths[0], time.Now(), time.Now().Add(-time.Minute)))
	s.Script(guardtest.OnFinish, func(context.Context) guardtest.Fault {
		return guardtest.Fault{Err: &locks.UnavailableError{What: "db", Err: errors.New("gone")}} // stored, and its answer lost
	})
	if all, err := b.Send(t.Context(), s); err != nil || len(all) != 2 || all[0].Path != paths[0] || all[1].Err == nil || !there(paths[1]) {
		t.Fatalf("sent %+v, %v", all, err)
	}
	s.Script(guardtest.OnFinish, nil)
	if all, err := b.Send(t.Context(), s); err != nil || len(all) != 3 || there(paths[1]) || there(paths[2]) || !there(paths[0]) {
		t.Fatalf("sent %+v, %v", all, err)
	}
}

func TestTwoSenders(t *testing.T) {
	dir, s := t.TempDir(), guardtest.NewMemory()
	for range 20 {
		r := request()
		r.Name = "job-" + r.RunID
		start(t, s, r)
		keep(t, New(dir, "db"), end(r, guard.OutcomeSucceeded))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			all, err := New(dir, "db").Send(t.Context(), s)
			if err != nil {
				t.Error(err)
			}
			for _, sent := range all {
				if sent.Err != nil {
					t.Errorf("sent %+v", sent)
				}
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(filepath.Join(dir, "outbox")); err != nil || len(left) != 0 {
		t.Fatalf("%d files are left, %v", len(left), err)
	}
}

// Others could put an outcome into a directory that they can write to.
func TestDirectoryOfOthers(t *testing.T) {
	dir, s, r := t.TempDir(), guardtest.NewMemory(), request()
	b := New(dir, "db")
	start(t, s, r)
	path := keep(t, b, end(r, guard.OutcomeSucceeded))
	must(t, os.Chmod(filepath.Dir(path), 0o777))
	var setup *locks.SetupError
	if all, err := b.Send(t.Context(), s); len(all) != 0 || !errors.As(err, &setup) {
		t.Fatalf("sent %+v, %v", all, err)
	}
	if _, err := b.KeepEnd(end(request(), guard.OutcomeFailed), time.Now()); !errors.As(err, &setup) {
		t.Fatalf("kept: %v", err)
	}
}

func TestCannotWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(dir, nil, 0o600))
	if path, err := New(dir, "db").KeepEnd(end(request(), guard.OutcomeFailed), time.Now()); err == nil {
		t.Fatalf("kept in %s", path)
	}
}
