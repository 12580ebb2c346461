package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// The test binary plays every process of a supervision: it is executed again
// under GuardianArg0 as the guardian, and with roleEnv set as lockrun ("driver")
// or as part of the job.
const (
	roleEnv = "SUPERVISE_TEST_ROLE"
	specEnv = "SUPERVISE_TEST_SPEC"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		locktest.DefaultSignals()
		os.Exit(m.Run())
	case "driver":
		os.Exit(drive())
	case "beat":
		beat()
	case "count":
		countSignals()
	case "root":
		becomeRoot()
	case "close":
		os.Exit(closeUnused())
	}
}

// driverSpec is what the driver is told, as JSON in specEnv.
type driverSpec struct {
	Argv           []string
	Vars           []string
	Window         time.Duration // from a renewal to K
	Renew          time.Duration // 0 = never
	Renewals       int           // 0 = for ever
	KillAfter      time.Duration
	KillMargin     time.Duration
	Leftovers      Policy
	TerminateAfter time.Duration // 0 = never
	TerminateOn    string        // a file: as soon as it is there
	StartDelay     time.Duration
	Log            string // file of logLines
}

// logLine is one event as the driver saw it.
type logLine struct {
	At    locks.Instant
	Kind  Kind
	Event Event
	Error string
	K     locks.Instant // the latest deadline asked for
}

// drive is a lockrun without locks: it supervises one child and ends as the
// contract says, with 70 for a run that was ended.
func drive() int {
	var spec driverSpec
	if err := json.Unmarshal([]byte(os.Getenv(specEnv)), &spec); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		return 64
	}
	os.Unsetenv(roleEnv)
	os.Unsetenv(specEnv)
	SurvivePipes()
	signals, stop := Signals()
	defer stop()
	path, err := LookPath(spec.Argv[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		var fault *CommandError
		if errors.As(err, &fault) {
			return fault.Code
		}
		return notFound
	}
	tree, err := New(Options{
		Path: path, Argv: spec.Argv, Leftovers: spec.Leftovers,
		Timing: locks.Timing{KillAfter: spec.KillAfter, KillMargin: spec.KillMargin},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		return 71
	}
	log, err := os.OpenFile(spec.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		return 64
	}
	clock := locks.SystemClock{}
	time.Sleep(spec.StartDelay)
	k := clock.Now().Add(spec.Window)
	tree.Start(spec.Vars, k)

	var renew, terminate <-chan time.Time
	if spec.Renew > 0 {
		renew = time.Tick(spec.Renew)
	}
	if spec.TerminateAfter > 0 {
		terminate = time.After(spec.TerminateAfter)
	}
	if spec.TerminateOn != "" {
		there := make(chan time.Time)
		go func() {
			for range time.Tick(5 * time.Millisecond) {
				if _, err := os.Stat(spec.TerminateOn); err == nil {
					there <- time.Now()
					return
				}
			}
		}()
		terminate = there
	}
	code, lost := 0, false
	var died syscall.Signal
	for {
		select {
		case e, open := <-tree.Events():
			if !open {
				if lost {
					return 70
				}
				if died != 0 {
					DieBySignal(died)
					return 128 + int(died)
				}
				return code
			}
			line := logLine{At: clock.Now(), Kind: e.Kind, Event: e, K: k}
			if e.Err != nil {
				line.Error, line.Event.Err = e.Err.Error(), nil
			}
			text, _ := json.Marshal(line)
			fmt.Fprintf(log, "%s\n", text)
			switch e.Kind {
			case Exited:
				code, died = e.Status.Code, e.Status.Signal
			case NotStarted:
				code = 71
				var command *CommandError
				if errors.As(e.Err, &command) {
					code = command.Code
				}
			case TakenOver, Stuck:
				lost = true
			case TermSent:
				lost = lost || !errors.Is(e.Err, ErrLeftovers)
			}
		case <-renew:
			k = clock.Now().Add(spec.Window)
			tree.Extend(k)
			if spec.Renewals--; spec.Renewals == 0 {
				renew = nil
			}
		case <-terminate:
			tree.Terminate(clock.Now().Add(spec.KillAfter), errAsked)
		case s := <-signals:
			tree.Signal(s.(syscall.Signal))
		}
	}
}

var errAsked = errors.New("the driver asked for it")

// beat appends "NANOSECONDS NAME" to a file until it is killed. Args: the file,
// the name, and "deaf" if it ignores SIGTERM.
func beat() {
	file, name := os.Args[1], os.Args[2]
	if len(os.Args) > 3 && os.Args[3] == "deaf" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	}
	log, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "beat:", err)
		os.Exit(1)
	}
	clock := locks.SystemClock{}
	for range time.Tick(2 * time.Millisecond) {
		fmt.Fprintf(log, "%d %s\n", clock.Now(), name)
	}
}

// countSignals appends the name of each signal that it gets to a file, and
// "ready" first. Args: the file, and the signal that ends it.
func countSignals() {
	log, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGPIPE)
	fmt.Fprintln(log, "ready")
	for s := range signals {
		fmt.Fprintln(log, strings.ReplaceAll(s.String(), " ", "-"))
		if s.String() == os.Args[2] {
			os.Exit(0)
		}
	}
}

// becomeRoot is a set-uid program that no ordinary user can signal any more. It
// leaves a file when it has got so far.
func becomeRoot() {
	if err := syscall.Setuid(0); err != nil {
		fmt.Fprintln(os.Stderr, "root:", err)
		os.Exit(1)
	}
	if err := os.WriteFile(os.Args[1], nil, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "root:", err)
		os.Exit(1)
	}
	time.Sleep(10 * time.Minute) // far longer than the test, and yet not for ever
}

// closeUnused ends a supervision that was never started, and says with its exit
// code whether anything is left.
func closeUnused() int {
	tree, err := New(Options{Path: "/bin/true", Argv: []string{"true"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
		return 71
	}
	tree.Close()
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		fmt.Fprintln(os.Stderr, "close: a child is left:", err)
		return 1
	}
	if e, open := <-tree.Events(); open {
		fmt.Fprintln(os.Stderr, "close: event", e)
		return 1
	}
	tree.Close() // none of these may block or do anything
	tree.Start(nil, locks.SystemClock{}.Now().Add(time.Hour))
	tree.Extend(1)
	tree.Terminate(1, nil)
	tree.Signal(syscall.SIGTERM)
	return 0
}
