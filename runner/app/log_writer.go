package app

import (
	"io"
	"sync"
	"time"
)

// What standard error may cost a run when nobody reads it: a pipe that is full,
// a terminal that was stopped.
const (
	linePatience = 50 * time.Millisecond  // that a line is written before what comes next
	lastPatience = 150 * time.Millisecond // at the end, for all that is left
	maxQueued    = 256                    // lines; then the oldest is given up
)

// writer writes lines in their order, on a goroutine of its own: a write that
// hangs must hold up neither the way to the child nor its supervision. The
// descriptor is the caller's and the child's too, so it can't be made
// non-blocking. While it takes lines at once, each is out before put returns.
type writer struct {
	to   io.Writer
	lost func(n int) string // the line that says how many were given up

	mu    sync.Mutex
	queue []string
	gone  int           // lines given up since lost was last told
	idle  chan struct{} // closed when the goroutine ends, which has then written all; nil without one
	stuck bool          // that goroutine was waited for in vain
}

// put has a line written.
func (w *writer) put(line string) {
	w.mu.Lock()
	if len(w.queue) == maxQueued {
		w.queue = w.queue[1:]
		w.gone++
	}
	w.queue = append(w.queue, line)
	if w.idle == nil {
		w.idle, w.stuck = make(chan struct{}), false
		go w.drain()
	}
	stuck := w.stuck
	w.mu.Unlock()
	if !stuck { // a pipe that is full costs the run one wait, not one a line
		w.wait(linePatience)
	}
}

// wait returns when everything is written, or after that long.
func (w *writer) wait(patience time.Duration) {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	if idle == nil {
		return
	}
	bound := time.NewTimer(patience)
	defer bound.Stop()
	select {
	case <-idle:
	case <-bound.C:
		w.mu.Lock()
		w.stuck = w.idle == idle
		w.mu.Unlock()
	}
}

// drain writes until nothing is left. A write that fails is dropped: a closed
// log must not end a run.
func (w *writer) drain() {
	for {
		line, more := w.next()
		if !more {
			return
		}
		_, _ = io.WriteString(w.to, line)
	}
}

func (w *writer) next() (line string, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.gone > 0: // they came before what is queued
		line, w.gone = w.lost(w.gone), 0
	case len(w.queue) > 0:
		line, w.queue = w.queue[0], w.queue[1:]
	default:
		close(w.idle)
		w.idle, w.queue = nil, nil
		return "", false
	}
	return line, true
}
