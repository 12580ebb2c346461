package app

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"lockrun/runner"
)

// log writes events to stderr, one line each. Nothing else of lockrun writes
// there while a child may run.
type log struct {
	w     *writer
	level runner.Level
	json  bool
	name  string // --name
}

func newLog(stderr io.Writer) *log {
	l := &log{level: runner.Warn}
	l.w = &writer{to: stderr, lost: func(n int) string {
		return l.line(runner.Event{Kind: runner.EventConfig, Level: runner.Warn, Err: fmt.Errorf(
			"%d lines are missing here: nobody has read standard error for too long", n)})
	}}
	return l
}

// take writes an event if its level is wanted.
func (l *log) take(e runner.Event) {
	if e.Level <= l.level {
		l.w.put(l.line(e))
	}
}

// end gives what was taken a last chance to be written. Whatever ends or
// replaces this process calls it first.
func (l *log) end() { l.w.wait(lastPatience) }

func (l *log) line(e runner.Event) string {
	if l.json {
		return l.object(e) + "\n"
	}
	return l.text(e) + "\n"
}

// record is a line of --log-format json. The keys are stable.
type record struct {
	Time     string `json:"time"`
	Level    string `json:"level"`
	Event    string `json:"event"`
	Name     string `json:"name,omitempty"`
	Date     string `json:"date,omitempty"`
	RunID    string `json:"run_id,omitempty"`
	Token    int64  `json:"token,omitempty"`
	Holder   string `json:"holder,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Since    string `json:"since,omitempty"`
	Until    string `json:"until,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Error    string `json:"error,omitempty"`
}

var levelNames = []string{runner.Error: "error", runner.Warn: "warn", runner.Info: "info", runner.Debug: "debug"}

func (l *log) object(e runner.Event) string {
	r := record{
		Time:  time.Now().UTC().Format(time.RFC3339Nano),
		Level: levelNames[e.Level], Event: string(e.Kind), Name: l.name, Date: e.Date, RunID: e.RunID,
		Token: e.Token, PID: e.PID, ExitCode: e.ExitCode,
	}
	if h := e.Held; h != nil {
		r.Holder, r.PID, r.Since, r.Until = h.By.Text, h.By.PID, stamp(h.By.Since), stamp(h.By.Until)
	}
	if p := e.Prior; p != nil {
		r.Holder, r.PID, r.Since, r.Until = p.Holder, p.PID, stamp(p.StartedAt), stamp(p.EndedAt)
	}
	var parts []string
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if e.Note != "" {
		parts = append(parts, e.Note)
	}
	r.Error, r.Holder = clipped(strings.Join(parts, "; "), maxLine), clipped(r.Holder, maxLine)
	text, err := json.Marshal(r)
	if err != nil { // a record of strings and numbers can always be encoded
		panic(err)
	}
	return inert(string(text))
}

// stamp is a time for people and logs: RFC 3339 in UTC, whole seconds; "" for
// the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
