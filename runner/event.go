package runner

import (
	"time"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/runner/supervise"
)

// EventKind names an event. The names are stable: they are the values of the
// key "event" in JSON logs.
type EventKind string

// The events of a run, and those that end an invocation before one.
const (
	EventAcquired    EventKind = "acquired"
	EventHeld        EventKind = "held"
	EventDone        EventKind = "done"
	EventRefused     EventKind = "refused"
	EventStarted     EventKind = "started"
	EventRenewFailed EventKind = "renew_failed"
	EventQuorumLost  EventKind = "quorum_lost"
	EventLost        EventKind = "lost"
	EventTermSent    EventKind = "term_sent"
	EventKillSent    EventKind = "kill_sent"
	EventEnded       EventKind = "ended"
	EventRecorded    EventKind = "recorded"
	EventUnrecorded  EventKind = "unrecorded"
	EventReleased    EventKind = "released"
	EventUnavailable EventKind = "unavailable"
	EventUsage       EventKind = "usage"
	EventConfig      EventKind = "config"
)

// Level says who wants to hear of an event.
type Level int

// The levels. The default shows warnings and errors: a run that ends well is
// silent.
const (
	Error Level = iota
	Warn
	Info
	Debug
)

// Event is one thing that happened, for the log. The words are the command
// line's business.
type Event struct {
	Kind  EventKind
	Level Level
	Date  string // resolved; "" = none or not known yet
	RunID string
	Token int64 // 0 = none
	PID   int   // Started: the child's
	Held  *locks.HeldError
	Prior *guard.Run // Done, Refused
	// Verdict tells the refusals apart: guard.WasFailed, guard.IsUnknown.
	Verdict guard.Verdict
	Status  *supervise.Status // Ended, Lost, Unrecorded: how the child ended, if it did
	EndedAt time.Time         // Unrecorded: by the host's clock
	// ExitCode is what lockrun ends with, once that is known.
	ExitCode *int
	Err      error  // why
	Next     string // what to do about it
	Note     string // a further clause: what may have been left behind, how much
}
