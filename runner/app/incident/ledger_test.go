package incident

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// interestBatchMain is the job: "interest-batch LEDGER [deaf]". While it runs it
// writes the time into a file of its own, every few milliseconds, as a batch
// posts interest. It ends with 0 once LEDGER/POD.finish is there. A deaf one
// can't be ended by SIGTERM.
func interestBatchMain() {
	if len(os.Args) > 2 {
		signal.Ignore(syscall.SIGTERM)
	}
	pod := os.Getenv("POD")
	f, err := os.Create(filepath.Join(os.Args[1], fmt.Sprintf("%s.%d.run", pod, os.Getpid())))
	must(err)
	token := os.Getenv("LOCKRUN_TOKEN")
	if token == "" {
		token = "0"
	}
	_, err = fmt.Fprintln(f, token, "run:"+os.Getenv("LOCKRUN_RUN_ID"))
	must(err)
	for {
		_, err := fmt.Fprintln(f, time.Now().UnixNano())
		must(err)
		if _, err := os.Stat(filepath.Join(os.Args[1], pod+".finish")); err == nil {
			return
		}
		_, err = os.Stat(os.Args[1])
		must(err)                        // the test is over
		time.Sleep(5 * time.Millisecond) // between two postings
	}
}

// ledger is the directory into which all jobs of a test write.
type ledger struct {
	testing.TB
	dir string
}

// posting is one child and what it has written.
type posting struct {
	pod, runID  string
	pid         int
	token       int64
	first, last time.Time
}

// finish lets the jobs of a pod end, now and later.
func (l *ledger) finish(pod string) {
	l.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, pod+".finish"), nil, 0o600); err != nil {
		l.Fatal(err)
	}
}

// postings lists the children that ever wrote, those of a pod or, for "", all.
func (l *ledger) postings(pod string) []posting {
	l.Helper()
	paths, err := filepath.Glob(filepath.Join(l.dir, pod+"*.run"))
	if err != nil {
		l.Fatal(err)
	}
	var all []posting
	for _, path := range paths {
		if p, ok := l.read(path); ok {
			all = append(all, p)
		}
	}
	return all
}

func (l *ledger) read(path string) (p posting, ok bool) {
	l.Helper()
	f, err := os.Open(path)
	if err != nil {
		l.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	name := strings.Split(filepath.Base(path), ".")
	p.pod = name[0]
	if _, err := fmt.Sscan(name[1], &p.pid); err != nil {
		l.Fatal(err)
	}
	lines := bufio.NewScanner(f)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			if _, err := fmt.Sscanf(lines.Text(), "%d run:%s", &p.token, &p.runID); err != nil && p.token != 0 {
				l.Fatalf("%s: %q: %v", path, lines.Text(), err)
			}
			continue
		}
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &at); err != nil || len(lines.Text()) < 19 {
			continue // it was killed, or is writing, in the middle of a line
		}
		if p.last = time.Unix(0, at); p.first.IsZero() {
			p.first = p.last
		}
	}
	return p, !p.first.IsZero()
}

// running waits until the pod's newest job writes, and returns it.
func (l *ledger) running(pod string) posting {
	l.Helper()
	var found posting
	eventually(l, "the job of "+pod+" writes", func() bool {
		for _, p := range l.postings(pod) {
			if p.first.After(found.first) {
				found = p
			}
		}
		return !found.first.IsZero()
	})
	return found
}

// goesOn waits until a job has written once more than now.
func (l *ledger) goesOn(p posting) posting {
	l.Helper()
	now := time.Now()
	eventually(l, "the job of "+p.pod+" goes on", func() bool {
		p = l.refresh(p)
		return p.last.After(now)
	})
	return p
}

// refresh reads again what a child has written.
func (l *ledger) refresh(p posting) posting {
	l.Helper()
	p, _ = l.read(filepath.Join(l.dir, fmt.Sprintf("%s.%d.run", p.pod, p.pid)))
	return p
}

// bothRun waits until two children have run at the same time for d: the fault
// shows. It returns for how long they have.
func (l *ledger) bothRun(a, b posting, d time.Duration) time.Duration {
	l.Helper()
	eventually(l, a.pod+" and "+b.pod+" run at the same time", func() bool {
		a, b = l.goesOn(a), l.goesOn(b)
		return together(a, b) > d
	})
	return together(a, b)
}

// only fails unless just one child ever wrote, and returns it.
func (l *ledger) only() posting {
	l.Helper()
	all := l.postings("")
	if len(all) != 1 {
		l.Fatalf("%d children ran, want one: %+v", len(all), all)
	}
	return all[0]
}

// together tells for how long two children ran at the same time.
func together(a, b posting) time.Duration {
	first, last := a.first, a.last
	if b.first.After(first) {
		first = b.first
	}
	if b.last.Before(last) {
		last = b.last
	}
	return last.Sub(first)
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// patience bounds every wait for a condition: longer than any machine needs.
const patience = 30 * time.Second

func eventually(tb testing.TB, what string, met func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !met(); {
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
