//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// command is an invocation of lockrun with the world's servers.
func (w *world) command(host int, args ...string) *exec.Cmd {
	urls := ""
	for i, wire := range w.wires {
		urls += " redis://" + w.reach(wire.Addr(), fmt.Sprint("redis-", i))
	}
	cmd := &exec.Cmd{}
	cmd.Path, cmd.Args, cmd.SysProcAttr = w.inItsOwnView(w.program, append([]string{"lockrun"}, args...))
	cmd.Env = []string{
		"PATH=" + w.dir + ":/usr/bin:/bin", "HOME=" + w.dir, "TZ=UTC", "LOCKRUN_LOG=info", "LOCKRUN_LOG_FORMAT=json",
		"LOCKRUN_POSTGRES=" + w.dsn(), "LOCKRUN_REDIS=" + urls, "LOCKRUN_STATE_DIR=" + w.stateDir(host),
		worldEnv + "=" + w.mark, ledgerEnv + "=" + w.dsn(),
	}
	return cmd
}

// play does what the plan says, waits for the end of everything, and returns
// what happened.
func (w *world) play(p *plan) *history {
	w.Helper()
	h := &history{TTL: p.TTL, KillMargin: max(p.TTL/12, 250*time.Millisecond)}
	w.must(os.Symlink(executable(), filepath.Join(w.dir, jobName)))
	witness := newWitness()
	results := make(chan invocation, len(p.Runs))
	var all sync.WaitGroup
	for _, run := range p.Runs {
		if run.ID == p.Lead {
			all.Go(func() { results <- w.invoke(p, run) })
			poll(patience, func() bool { return w.alive(run.ID) || len(results) > 0 })
			h.Pointless = !w.alive(run.ID)
		}
	}
	begun := time.Now()
	for _, run := range p.Runs {
		if run.ID == p.Lead {
			continue
		}
		all.Go(func() {
			<-time.After(time.Until(begun.Add(run.At)))
			results <- w.invoke(p, run)
		})
	}
	h.Faults = w.injectAll(p, begun)
	all.Wait()
	close(results)
	for i := range results {
		h.Invocations = append(h.Invocations, i)
	}
	w.heal()
	if w.pooler != nil {
		w.renewPooler() // one that has met a dead server refuses everybody for a while
	}
	w.settle(p, h)
	h.Stalls = witness.stop()
	w.read(h)
	return h
}

func executable() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// injectAll does the faults in the order of their times, in this goroutine.
func (w *world) injectAll(p *plan, begun time.Time) (done []span) {
	type action struct {
		at time.Duration
		do func()
	}
	var actions []action
	for _, f := range p.Faults {
		kind := faultNamed(f.Kind)
		s := span{What: f.Kind}
		actions = append(actions, action{f.At, func() {
			s.From = at(time.Now())
			if err := kind.do(w, f); err != nil {
				s.From = 0 // in the way of another one
			} else if kind.undo == nil {
				s.To = at(time.Now())
				done = append(done, s)
			}
		}})
		if kind.undo != nil {
			actions = append(actions, action{f.At + f.For, func() {
				kind.undo(w, f)
				if s.From != 0 {
					s.To = at(time.Now())
					done = append(done, s)
				}
			}})
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return int(a.at - b.at) })
	for _, a := range actions {
		<-time.After(time.Until(begun.Add(a.at)))
		a.do()
	}
	return done
}

// calmTTL leaves a busy machine no excuse once all is quiet.
const calmTTL = 15 * time.Second

// invoke runs lockrun once, with what is done to it, and tells how it ended.
func (w *world) invoke(p *plan, r plannedRun) invocation {
	ttl := p.TTL
	if r.Calm {
		ttl = calmTTL
	}
	args := []string{"--name", r.Name, "--ttl", ttl.String(), "--holder", r.ID}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	add("--date", r.Date)
	add("--rerun", r.Rerun)
	add("--leftovers", r.Leftovers)
	addTime := func(flag string, d time.Duration) {
		if d > 0 {
			add(flag, d.String())
		}
	}
	addTime("--wait", r.Wait)
	addTime("--kill-after", p.KillAfter)
	addTime("--max-runtime", r.MaxRuntime)
	if p.Preferred {
		add("--quorum", "preferred")
	}
	cmd := w.command(r.Host, append(args, "--", jobName)...)
	text, _ := json.Marshal(r.Job)
	cmd.Env = append(cmd.Env, jobEnv+"="+string(text), fileEnv+"="+w.accountOf(r.ID))
	i := invocation{ID: r.ID, Name: r.Name, Date: r.Date, Rerun: r.Rerun, Limited: r.MaxRuntime > 0, Survives: r.Survives, Calm: r.Calm}
	// A file, not a pipe: a job that outlives lockrun would hold that open.
	log, err := os.Create(filepath.Join(w.dir, r.ID+".log"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	i.Began = at(time.Now())
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	harmed := make(chan string, 1)
	go func() {
		if r.ID == p.Lead {
			poll(patience, func() bool { return w.alive(r.ID) })
		}
		harmed <- harm(cmd.Process.Pid, r.Harm, ended)
	}()
	patience := time.AfterFunc(r.Wait+r.Job.Life+r.Job.Heir+10*p.TTL+20*time.Second, func() {
		i.End.Hung = true
		_ = cmd.Process.Kill()
	})
	_ = cmd.Wait()
	hung := !patience.Stop()
	i.Ended = at(time.Now())
	close(ended)
	i.Harm = <-harmed
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	i.End = ending{Hung: hung, Code: max(status.ExitStatus(), 0)}
	if status.Signaled() {
		i.End.Signal = int(status.Signal())
	}
	i.readLog(log.Name())
	return i
}

func (w *world) accountOf(id string) string { return filepath.Join(w.dir, id+".job") }

// alive tells whether the job of an invocation has said anything yet.
func (w *world) alive(id string) bool {
	text, _ := os.ReadFile(w.accountOf(id))
	return len(text) > 0
}

// harm does what is planned to the run of lockrun's process, and returns what
// was really done.
func harm(pid int, h *plannedHarm, ended <-chan struct{}) string {
	if h == nil {
		return ""
	}
	select {
	case <-time.After(h.After):
	case <-ended:
		return ""
	}
	victim, sig := pid, syscall.SIGKILL
	switch h.What {
	case harmTermLockrun:
		sig = syscall.SIGTERM
	case harmStopLockrun:
		sig = syscall.SIGSTOP
	case harmKillGuard, harmStopGuard:
		if victim = guardianOf(pid); victim == 0 {
			return "" // not there yet, or not any more
		}
		if h.What == harmStopGuard {
			sig = syscall.SIGSTOP
		}
	}
	if syscall.Kill(victim, sig) != nil {
		return ""
	}
	if sig == syscall.SIGSTOP {
		<-time.After(h.Resume)
		_ = syscall.Kill(victim, syscall.SIGCONT)
	}
	return h.What
}
