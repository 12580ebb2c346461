package app

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"lockrun/guard"
	"lockrun/guard/outbox"
	"lockrun/guard/postgres"
	"lockrun/guard/sqlite"
	"lockrun/locks"
	"lockrun/locks/filelock"
	"lockrun/locks/quorum"
	"lockrun/runner"
	"lockrun/runner/supervise"
)

func fields(text string) []string { return strings.Fields(text) }

// hostName is the host's name, or a word that says that it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "unknown-host"
	}
	return name
}

// osUser is the name of the user, or the number when no name is known: a
// container often has no entry for it. user.Current would then believe $USER,
// which may be anybody's.
func osUser() string {
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + uid
}

// run is the main job.
func (in *invocation) run(s *settings) error {
	// Whoever runs the command to its end does not stop them: that would cost the
	// end some switches between threads, and the process is gone right after it.
	signals, stop := supervise.Signals()
	if err := in.log.configure(s); err != nil {
		return err
	}
	c, err := in.readConfig(s)
	if err != nil {
		return err
	}
	in.log.name = c.name
	path, err := supervise.LookPath(in.command[0])
	if err != nil {
		return commandFault(err)
	}
	if in.isNested(c) {
		return in.nested(c, path, signals, stop)
	}
	r := &runner.Runner{
		Preferred: c.preferred, Clock: locks.SystemClock{}, Timing: c.timing,
		Signals: signals, Report: in.log.take,
	}
	if err := in.wire(r, c); err != nil {
		return err
	}
	if dir, err := stateDir(s, in.env); err == nil && dir != "" {
		r.Outbox = outbox.New(dir, c.stores.address())
	}
	// What lockrun itself was given must not pass for what it gives.
	for _, key := range runner.ChildVariables {
		if err := os.Unsetenv(key); err != nil {
			return &exitError{kind: runner.EventUnavailable, code: runner.ExitSystem, err: err}
		}
	}
	r.NewChild = func() (runner.Child, error) {
		return supervise.New(supervise.Options{Path: path, Argv: in.command, Timing: c.timing, Leftovers: c.leftovers})
	}
	in.result = r.Run(runner.Spec{
		Request: guard.Request{
			Name: c.name, Holder: c.holder, Host: hostName(), PID: os.Getpid(), OSUser: osUser(),
			Command: in.command, Version: version(), TTL: c.timing.TTL, Rerun: c.rerun,
		},
		NewRunID: uuid.NewString,
		Date:     c.date, Zone: c.zone, DayStart: c.dayStarts,
		Started: in.started, StartedWall: in.startedWall,
		Wait: c.wait, MaxRuntime: c.maxRuntime, AtLeast: c.atLeast, Leftovers: c.leftovers,
		HeldCode: c.heldCode, DoneCode: c.doneCode, PGOptions: in.pgOptions(c),
	})
	return nil
}

// pgOptions is the caller's PGOPTIONS when the command's is to name the run.
func (in *invocation) pgOptions(c *runConfig) *string {
	if !c.exportRunID {
		return nil
	}
	given := in.env["PGOPTIONS"]
	return &given
}

// commandFault is the end of a run whose command can't be executed: nothing was
// touched.
func commandFault(err error) error {
	code := runner.ExitNotFound
	var ce *supervise.CommandError
	if errors.As(err, &ce) {
		code = ce.Code
	}
	return &exitError{kind: runner.EventUnavailable, code: code, err: fmt.Errorf("nothing started: %w", err)}
}

// wire chooses the doors. A mode is nothing but this choice.
func (in *invocation) wire(r *runner.Runner, c *runConfig) error {
	if c.stores.local {
		r.Filter, r.FilterName = filelock.New(c.stores.stateDir), "file lock"
		r.Store = sqlite.New(c.stores.stateDir, c.timing)
		return nil
	}
	r.Store = postgres.New(c.stores.postgres, c.timing)
	if len(c.stores.redis) == 0 {
		return nil
	}
	q, err := newQuorum(quorum.Options{
		URLs: c.stores.redis, TLS: c.stores.tls, Timing: c.timing, Clock: r.Clock,
		Warn: func(node string, err error) {
			in.log.take(runner.Event{Kind: runner.EventConfig, Level: runner.Warn, Err: fmt.Errorf("redis node %s counts as failed: %w", node, err)})
		},
		Debug: func(text string) {
			in.log.take(runner.Event{Kind: runner.EventUnavailable, Level: runner.Debug, Err: errors.New(text)})
		},
	})
	if err != nil {
		return err
	}
	r.Filter, r.FilterName = q, quorumTier
	return nil
}
