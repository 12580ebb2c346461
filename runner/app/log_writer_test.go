package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipe takes what is written to it while it is open; a closed gate makes a write
// hang. It is never looked at while somebody writes.
type pipe struct {
	gate  chan struct{} // nil = open
	lines []string
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.gate != nil {
		<-p.gate
	}
	p.lines = append(p.lines, strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// took tells how long do takes.
func took(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func newWriter(p *pipe) *writer {
	return &writer{to: p, lost: func(n int) string { return fmt.Sprintf("lost %d\n", n) }}
}

func TestWriter(t *testing.T) {
	t.Run("at_once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &pipe{}
			w := newWriter(p)
			for _, line := range []string{"a", "b"} {
				if d := took(func() { w.put(line + "\n") }); d != 0 || p.lines[len(p.lines)-1] != line {
					t.Fatalf("after %s: %q", d, p.lines)
				}
			}
			if d := took(func() { w.wait(lastPatience) }); d != 0 {
				t.Fatalf("the end took %s", d)
			}
		})
	})
	t.Run("clogged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &pipe{gate: make(chan struct{})}
			w := newWriter(p)
			const more = 3
			d := took(func() {
				for i := range 1 + maxQueued + more { // one of them hangs, the queue is full of others
					w.put(fmt.Sprintln(i))
				}
			})
			if d != linePatience {
				t.Fatalf("it held up the run for %s", d)
			}
			if d := took(func() { w.wait(lastPatience) }); d != lastPatience {
				t.Fatalf("the end took %s", d)
			}
			close(p.gate)
			synctest.Wait()
			want := []string{"0", fmt.Sprint("lost ", more)}
			for i := range maxQueued {
				want = append(want, fmt.Sprint(1+more+i))
			}
			if !slices.Equal(p.lines, want) {
				t.Fatalf("%q", p.lines)
			}
		})
	})
	t.Run("read_again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &pipe{gate: make(chan struct{})}
			w := newWriter(p)
			w.put("a\n")
			time.AfterFunc(lastPatience/2, func() { close(p.gate) })
			w.wait(lastPatience)
			if !slices.Equal(p.lines, []string{"a"}) {
				t.Fatalf("the last line was not waited for: %q", p.lines)
			}
			p.gate = make(chan struct{})
			time.AfterFunc(linePatience/2, func() { close(p.gate) })
			if d := took(func() { w.put("b\n") }); d != linePatience/2 {
				t.Fatalf("waited %s, although the pipe was read again", d)
			}
		})
	})
}
