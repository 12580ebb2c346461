package supervise

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockrun/locks"
)

// TestUserLimit has an ordinary user start lockrun with so few processes left that
// Go's runtime would crash.
func TestUserLimit(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("only root can be a user of whom nothing else runs, so nothing is tested")
		return
	}
	for limit, code := range map[int]int{28: 71, 36: 71, 44: 71, 120: 0} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			f := newUserFixture(t)
			f.spec.Argv = []string{"true"}
			user := fmt.Sprint("--reuid=", 61000+limit) // each has a limit of its own
			f.wrap("prlimit", fmt.Sprint("--nproc=", limit), "setpriv", user, "--regid=65534", "--clear-groups", "--inh-caps=-all")
			f.exits(code, f.run())
			f.gone()
			told := f.err.String()
			if code != 0 && (strings.Count(told, "\n") != 1 || !strings.Contains(told, "ulimit -u")) {
				t.Errorf("it said %.500q", told)
			}
			if code == 0 && told != "" {
				t.Errorf("it said %.500q", told)
			}
		})
	}
}

// newUnready is a supervision whose guardian is played by the test, without a
// process: the functions of the loop are called directly.
func newUnready(t *testing.T) (tree *Tree, guardian *conn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*conn
	for i := range ends {
		if ends[i], err = newConn(pair[i]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ends[i].file.Close() })
	}
	tree = &Tree{
		opts:   Options{Argv: []string{"job"}, Timing: locks.Timing{KillAfter: time.Second, KillMargin: time.Second}},
		events: make(chan Event, int(Stuck)), calls: make(chan func()), done: make(chan struct{}),
		clock: locks.SystemClock{}, conn: ends[0], sent: make(map[Kind]bool),
	}
	tree.alarm = tree.clock.NewAlarm()
	t.Cleanup(tree.alarm.Stop)
	return tree, ends[1]
}

// call has the tree serve one call.
func (t *Tree) call(f func()) {
	go f()
	(<-t.calls)()
}

func heard(guardian *conn) (verbs []string) {
	guardian.receive(func(m message) { verbs = append(verbs, m.verb) })
	return verbs
}

// TestNotReady is about a guardian that is told to start before it can.
func TestNotReady(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (tree *Tree, guardian *conn, end locks.Instant) {
		tree, guardian = newUnready(t)
		end = now().Add(time.Hour)
		tree.call(func() { tree.Start(nil, end) })
		tree.call(func() { tree.Extend(end.Add(time.Second)) })
		tree.judge(now(), false)
		if verbs := heard(guardian); len(verbs) != 0 {
			t.Errorf("it was told %q before it was ready", verbs)
		}
		return tree, guardian, end
	}
	notStarted := func(t *testing.T, tree *Tree) {
		t.Helper()
		select {
		case e := <-tree.Events():
			if e.Kind != NotStarted || !errors.Is(e.Err, ErrGuardian) {
				t.Errorf("event %+v", e)
			}
		default:
			t.Error("no event")
		}
	}
	t.Run("becomes ready", func(t *testing.T) {
		tree, guardian, _ := begin(t)
		tree.handle(message{verb: sayReady})
		if verbs, want := heard(guardian), []string{sayStart, sayExtend}; !slices.Equal(verbs, want) {
			t.Errorf("it was told %q, want %q", verbs, want)
		}
	})
	t.Run("dies", func(t *testing.T) {
		tree, _, _ := begin(t)
		tree.lost = true
		tree.judge(now(), false)
		notStarted(t, tree)
	})
	t.Run("does not answer", func(t *testing.T) {
		tree, _, _ := begin(t)
		tree.judge(now().Add(answerWithin+time.Second), false)
		notStarted(t, tree)
	})
	t.Run("becomes ready too late", func(t *testing.T) {
		tree, guardian, end := begin(t)
		tree.judge(end, false)
		tree.handle(message{verb: sayReady})
		if verbs := heard(guardian); len(verbs) != 0 {
			t.Errorf("it was told %q after it had been given up", verbs)
		}
	})
	t.Run("does not answer before the deadline", func(t *testing.T) {
		tree, _, end := begin(t)
		tree.answerBy = end.Add(time.Hour)
		tree.judge(end, false)
		notStarted(t, tree)
	})
}
