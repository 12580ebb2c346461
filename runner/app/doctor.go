package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"lockrun/guard/outbox"
	"lockrun/guard/postgres"
	"lockrun/guard/sqlite"
	"lockrun/locks"
	"lockrun/locks/quorum"
	"lockrun/locks/statedir"
	"lockrun/runner"
)

func (in *invocation) doctorCommand() *command {
	return &command{
		name: "doctor", help: doctorHelp, run: in.doctor,
		options: ledgerOptions("redis", "redis-ca", "redis-cert", "redis-key", "ttl", "kill-after"),
	}
}

// findingJSON is a finding as JSON.
type findingJSON struct {
	Check  string      `json:"check"`
	Status locks.Grade `json:"status"`
	Text   string      `json:"text"`
}

// doctor examines everything that a run with the same options would use.
func (in *invocation) doctor(s *settings) error {
	asJSON, err := s.bool("json")
	if err != nil {
		return err
	}
	c := &runConfig{}
	if err := c.readTiming(s); err != nil {
		return err
	}
	if c.stores, err = readStores(s, in.env); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	findings, err := in.examine(ctx, s, c)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return &locks.UnavailableError{What: "doctor", Err: errors.New("interrupted")}
	case asJSON:
		rows := make([]findingJSON, len(findings))
		for i, f := range findings {
			rows[i] = findingJSON(f)
		}
		err = printJSON(in, rows)
	default:
		err = in.print(in.report(findings))
	}
	if err != nil {
		return err
	}
	for _, f := range findings {
		if f.Status == locks.GradeFail {
			in.result.Code = runner.ExitConfig
		}
	}
	return nil
}

// examine asks all servers at the same time.
func (in *invocation) examine(ctx context.Context, s *settings, c *runConfig) ([]locks.Finding, error) {
	if c.stores.local {
		found := append(statedir.Examine(c.stores.stateDir), undelivered(c.stores.stateDir)...)
		return append(append(found, sqlite.Examine(ctx, c.stores.stateDir)...), supervision()...), nil
	}
	var redis, database []locks.Finding
	var redisErr error
	var wg sync.WaitGroup
	if len(c.stores.redis) > 0 {
		wg.Go(func() {
			redis, redisErr = quorum.Examine(ctx, quorum.Options{URLs: c.stores.redis, TLS: c.stores.tls, Timing: c.timing})
		})
	}
	wg.Go(func() { database = postgres.Examine(ctx, c.stores.postgres, c.timing, runner.MaxSkew) })
	wg.Wait()
	if redisErr != nil {
		return nil, usagef("%w", redisErr)
	}
	state, err := in.stateDirectory(s)
	if err != nil {
		return nil, err
	}
	all := append(redis, database...)
	return append(append(all, state...), supervision()...), nil
}

// stateDirectory examines the state directory of a host that runs with servers. It
// keeps only what could not be told to them: no run fails for want of it.
func (in *invocation) stateDirectory(s *settings) ([]locks.Finding, error) {
	dir, err := stateDir(s, in.env)
	if err != nil {
		return nil, err
	}
	const without = "; without it runs go on, but an end that can't be stored is not kept for later"
	if dir == "" {
		f := &locks.Findings{}
		f.Warn("state directory", "none: neither --state-dir nor XDG_STATE_HOME nor HOME is set%s", without)
		return f.List, nil
	}
	found := statedir.Examine(dir)
	for i := range found {
		if found[i].Status == locks.GradeFail {
			found[i].Status = locks.GradeWarn
			found[i].Text += without
		}
	}
	return append(found, undelivered(dir)...), nil
}

// undelivered looks for results that wait for their store.
func undelivered(dir string) []locks.Finding {
	const check = "outbox"
	f, box := &locks.Findings{}, outbox.New(dir, "")
	switch n, err := box.Waiting(); {
	case err != nil:
		f.Warn(check, "%s: can't be read: %v", box.Dir(), err)
	case n > 0:
		f.Warn(check, "%s: results that are not stored yet: %d; run \"lockrun resolve --outbox\" as this user", box.Dir(), n)
	default:
		f.OK(check, "%s: every result is stored", box.Dir())
	}
	return f.List
}

// supervision says what this system lacks to end a child's tree for certain.
func supervision() []locks.Finding {
	f := &locks.Findings{}
	const check = "supervision"
	if runtime.GOOS != "linux" {
		f.Warn(check, "on %s it is best effort: what the child leaves behind, or outlives a killed lockrun, may not be found; the full promise needs Linux", runtime.GOOS)
		return f.List
	}
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		f.Fail(check, "/proc is not mounted, so that a child's tree can't be found; mount it")
		return f.List
	}
	f.OK(check, "this system can end a child's whole tree")
	return f.List
}

// report is the findings for people, a line each.
func (in *invocation) report(findings []locks.Finding) string {
	tones := map[locks.Grade]tone{locks.GradeOK: good, locks.GradeWarn: odd, locks.GradeFail: bad}
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	colour := in.colour()
	var b strings.Builder
	for _, f := range findings {
		status := fmt.Sprintf("%-4s", f.Status)
		if colour {
			status = paint[tones[f.Status]] + status + unpaint
		}
		fmt.Fprintf(&b, "%s  %-*s  %s\n", status, width, f.Check, escaped(f.Text))
	}
	return b.String()
}
