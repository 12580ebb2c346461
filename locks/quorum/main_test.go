package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// TestMain looks for goroutines that are left behind. The Redis library's own
// looks after a dead node once a second, so it takes that long to see that its
// client was closed.
func TestMain(m *testing.M) {
	code := m.Run()
	var leak error
	for range 10 {
		if leak = goleak.Find(); leak == nil {
			break
		}
	}
	if leak != nil && code == 0 {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// job is the name that is locked.
const job = "eod/interest"

// patience bounds what has to happen; nothing is expected to take so long.
const patience = 30 * time.Second

// log keeps what a quorum tells.
type log struct {
	mu    sync.Mutex
	warns []string
	debug []string
}

func (l *log) Warn(node string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warns = append(l.warns, node+": "+err.Error())
}

func (l *log) Debug(msg string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.debug = append(l.debug, msg)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.warns, "\n") + "\n" + strings.Join(l.debug, "\n")
}

func (l *log) Warns() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.warns...)
}

// open makes a quorum that is closed at the end of the test.
func open(t testing.TB, ttl time.Duration, urls []string, change ...func(*Options)) *Quorum {
	t.Helper()
	timing, err := locks.NewTiming(ttl, -1)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{URLs: urls, Timing: timing, Clock: locktest.NewClock()}
	for _, c := range change {
		c(&o)
	}
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func withLog(l *log) func(*Options) {
	return func(o *Options) { o.Warn, o.Debug = l.Warn, l.Debug }
}

func claim(holder string) locks.Claim {
	return locks.Claim{Name: job, RunID: uuid.NewString(), PID: 4711, Holder: holder, At: time.Now()}
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, q *Quorum, c locks.Claim) {
	t.Helper()
	if err := q.Acquire(bounded(t), c); err != nil {
		t.Fatalf("acquire for %s: %v", c.Holder, err)
	}
}

func release(t testing.TB, q *Quorum) {
	t.Helper()
	if err := q.Release(bounded(t)); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// refused asks and returns the error, which must be a T.
func refused[T error](t testing.TB, q *Quorum, c locks.Claim) T {
	t.Helper()
	err := q.Acquire(bounded(t), c)
	var want T
	if !errors.As(err, &want) {
		t.Fatalf("acquire for %s: got %v, want a %T", c.Holder, err, want)
	}
	return want
}

// must fails the test if a text lacks one of the others.
func must(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q lacks %q", text, p)
		}
	}
}

// poll waits until ok returns true.
func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// do runs a command as the default user and returns its text.
func do(t testing.TB, r *locktest.Redis, args ...any) string {
	t.Helper()
	c := r.Client()
	defer func() { _ = c.Close() }()
	v, err := c.Do(bounded(t), args...).Result()
	if err != nil && err.Error() != "redis: nil" {
		t.Fatalf("%v: %v", args, err)
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// values lists what the nodes have as the lock.
func values(t testing.TB, nodes []*locktest.Redis) []string {
	t.Helper()
	var all []string
	for _, n := range nodes {
		all = append(all, do(t, n, "GET", lockKey(job)))
	}
	return all
}

func everywhere(t testing.TB, nodes []*locktest.Redis, want string) {
	t.Helper()
	for i, v := range values(t, nodes) {
		if v != want {
			t.Errorf("node %d has %q, want %q", i, v, want)
		}
	}
}
