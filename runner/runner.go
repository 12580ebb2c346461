package runner

import (
	"os"
	"time"

	"lockrun/guard"
	"lockrun/guard/outbox"
	"lockrun/locks"
	"lockrun/runner/supervise"
)

// Runner does one run. All fields but Filter, Outbox, Signals and Report are
// required.
type Runner struct {
	// Filter is the first door; nil if there is none (Postgres alone).
	Filter     locks.Filter
	FilterName string // for people: "quorum", "file lock"
	// Preferred lets a run go on without a filter that can't be reached.
	Preferred bool
	Store     guard.Store
	// Outbox keeps what the store could not be told; nil if there is no place
	// for one.
	Outbox *outbox.Box
	// NewChild begins the supervision of the child, which then waits for its
	// start. It is called once the filter is ours, so that whoever loses there
	// spends nothing on it, while the store is connected to, and nothing is taken
	// before it has returned.
	NewChild func() (Child, error)
	Clock    locks.Clock
	Timing   locks.Timing
	// Signals delivers what lockrun itself receives. Before the child exists any
	// of them ends the run; afterwards they are the child's.
	Signals <-chan os.Signal
	// Report takes every event; one goroutine calls it.
	Report func(Event)
}

// Spec says what to run.
type Spec struct {
	// Request is complete except for the run id, the date and Elapsed, which the
	// run finds.
	Request guard.Request
	// NewRunID makes a run id. After waiting the store is asked under another
	// one: the first may be spent, by an answer that was lost and undone.
	NewRunID func() string
	Date     guard.DateSpec
	Zone     *time.Location
	DayStart time.Duration
	// Started is when lockrun was started, by the clock that deadlines use and
	// by the host's.
	Started     locks.Instant
	StartedWall time.Time

	Wait       time.Duration // how long to wait for the current holder
	MaxRuntime time.Duration // 0 = none
	AtLeast    time.Duration
	Leftovers  supervise.Policy // what NewChild was told, for the words about them
	HeldCode   int              // --conflict-exit-code
	DoneCode   int              // --done-exit-code
	// PGOptions is the caller's PGOPTIONS, to which the child's adds the run's
	// id; nil = the child gets the caller's as it is.
	PGOptions *string
}

// run is the state of one Run.
type run struct {
	*Runner
	child Child      // nil until its supervision has begun
	begun chan begun // while it begins
	spec  Spec
	req   guard.Request
	// stopped is closed when a signal came before the child existed.
	stopped chan struct{}
	signal  os.Signal // that signal; read after stopped is closed
	// filtered tells whether the filter is ours, and since which request.
	filtered   bool
	filterSent locks.Instant
	leaseSent  locks.Instant
	answer     guard.Answer
	// mayHold is set while lease and date are ours, or may become ours by a
	// request whose answer never came.
	mayHold        bool
	warnedOfClock  bool
	warnedOfQuorum bool
	dropped        bool // the filter's window closed while the child ran
	sentOutbox     bool
}

// Run goes through the doors, runs the child, and returns how lockrun ends. It
// returns only after whatever it took was given back, left to expire on
// purpose, or reported.
func (r *Runner) Run(spec Spec) Result {
	x := &run{Runner: r, spec: spec, req: spec.Request, stopped: make(chan struct{})}
	if x.Report == nil {
		x.Report = func(Event) {}
	}
	x.req.RunID = spec.NewRunID()
	x.req.Elapsed = func() time.Duration { return x.Clock.Now().Sub(spec.Started) }
	defer x.close()

	unwatch := x.watchSignals()
	granted, res := x.enter()
	early := unwatch()
	switch {
	case !granted:
		return res
	case early != nil:
		return x.abandon(early)
	}
	return x.supervise()
}

func (x *run) close() {
	_ = x.awaitChild(signalPatience) // one that was not needed in the end
	if x.child != nil {
		x.child.Close()
	}
	x.Store.Close()
	if x.Filter != nil {
		x.Filter.Close()
	}
}

// report fills in what every event of this run shares.
func (x *run) report(e Event) {
	e.Date, e.RunID = x.req.Date, x.req.RunID
	if e.Token == 0 {
		e.Token = x.answer.Token
	}
	x.Report(e)
}

// final reports the event that explains the exit code, and returns that.
func (x *run) final(e Event, res Result) Result {
	code := res.Shown()
	e.ExitCode = &code
	x.report(e)
	return res
}
