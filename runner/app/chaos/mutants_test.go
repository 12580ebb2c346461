//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockrun/locks/locktest"
)

// patch is a change of a source file. Old stands there exactly once.
type patch struct{ file, old, new string }

// mutant is lockrun with a door taken out, and the schedule in which that door
// is the only one that is left.
type mutant struct {
	name    string
	patches []patch
	plan    *plan
	rules   []string // one of which must be found violated
}

const ms = time.Millisecond

// run is a plain invocation of a directed schedule.
func run(id string, at time.Duration, date string, j job) plannedRun {
	return plannedRun{ID: id, At: at, Name: "job", Date: date, Job: j}
}

// withoutFilter is a holder with contenders for other dates of its name, whom
// Redis has forgotten each time that one of them comes.
func withoutFilter(shift time.Duration) *plan {
	p := &plan{TTL: 3 * time.Second, Shift: shift, Lead: "holder", Runs: []plannedRun{run("holder", 0, "2026-01-01", job{Life: 3500 * ms})}}
	for i := range 6 {
		at := 500*ms + time.Duration(i)*400*ms
		p.Faults = append(p.Faults, plannedFault{At: at, Kind: "all redis flushed"})
		p.Runs = append(p.Runs, run(fmt.Sprint("contender-", i), at+20*ms, fmt.Sprintf("2026-02-%02d", i+1), job{Life: 300 * ms}))
	}
	return p
}

const (
	acquireSQL   = "guard/postgres/acquire.sql"
	preCheck     = "AND NOT o.run_id = @run_id::uuid AND o.expires_at > clock_timestamp())"
	takeOver     = "WHERE l.expires_at <= clock_timestamp() OR l.run_id = EXCLUDED.run_id"
	hostsClock   = "to_timestamp(@host_us::bigint / 1000000.0)"
	acquireGo    = "guard/postgres/acquire_ask.go"
	argsOfTTL    = `args["schema"], args["open"], args["ttl"] =`
	guardianGo   = "runner/supervise/guardian_linux.go"
	guardianTerm = "return g.killAt.Add(-g.killAfter)"
)

var mutants = []mutant{
	{
		name: "guard skipped",
		patches: []patch{
			{acquireSQL, "AND NOT p.state = ANY", "AND false AND NOT p.state = ANY"},
			{acquireSQL, "WHERE r.run_id = EXCLUDED.run_id OR r.state", "WHERE true OR r.state"},
		},
		plan: &plan{TTL: 4 * time.Second, Lead: "first", Runs: []plannedRun{
			run("first", 0, "2026-01-01", job{Life: 100 * ms}), run("second", 1200*ms, "2026-01-01", job{Life: 100 * ms}),
		}},
		rules: []string{ruleTwice},
	},
	{
		name:    "lease skipped",
		patches: []patch{{acquireSQL, preCheck, "AND false)"}, {acquireSQL, takeOver, "WHERE true"}},
		plan:    withoutFilter(0),
		rules:   []string{ruleOverlap, ruleRevived},
	},
	{
		name: "local clock in place of the database's",
		patches: []patch{
			{acquireSQL, preCheck, strings.Replace(preCheck, "clock_timestamp()", hostsClock, 1)},
			{acquireSQL, takeOver, strings.Replace(takeOver, "clock_timestamp()", hostsClock, 1)},
			{acquireGo, argsOfTTL, "args[\"host_us\"] = time.Now().UnixMicro()\n\t" + argsOfTTL},
		},
		plan:  withoutFilter(-10 * time.Minute),
		rules: []string{ruleOverlap, ruleRevived},
	},
	{
		name:    "renewal stops at the first error",
		patches: []patch{{"locks/hold.go", "due = arrived.Add(retry.NextBackOff())", "return"}},
		plan: &plan{
			TTL: 2 * time.Second, Lead: "holder",
			Runs:   []plannedRun{{ID: "holder", Name: "job", Job: job{Life: 2500 * ms, Silent: true}, Survives: true}},
			Faults: []plannedFault{{For: 2 * time.Second, Kind: "answer to renew lost", Times: 3}},
		},
		rules: []string{ruleLoss},
	},
	{
		name: "release before the tree's death",
		patches: []patch{{
			"runner/child_run.go", "x.childEvent(w, e)\n", "x.childEvent(w, e)\n\t\t\tif e.Kind == supervise.Exited {\n\t\t\t\tw.dead = true\n\t\t\t\treturn\n\t\t\t}\n",
		}},
		plan: &plan{TTL: 3 * time.Second, KillAfter: time.Second, Lead: "holder", Runs: []plannedRun{
			run("holder", 0, "2026-01-01", job{Life: 300 * ms, Heir: 3 * time.Second}),
			{ID: "next", At: 200 * ms, Name: "job", Date: "2026-01-02", Wait: 4 * time.Second, Job: job{Life: 100 * ms}},
		}},
		rules: []string{ruleLate, ruleOverlap},
	},
	{
		name:    "unanswered acquire not undone",
		patches: []patch{{"runner/enter.go", "x.mayHold = mayHaveTaken(err)", "x.mayHold = false"}},
		plan: &plan{
			TTL:    2 * time.Second,
			Runs:   []plannedRun{run("unanswered", 100*ms, "2026-01-01", job{Life: 100 * ms})},
			Faults: []plannedFault{{For: 4 * time.Second, Kind: "answer to acquire lost", Times: 1000}},
		},
		rules: []string{ruleRecord},
	},
	{
		name:    "guardian without a deadline",
		patches: []patch{{guardianGo, guardianTerm, "return g.killAt.Add(3600e9)"}},
		plan: &plan{TTL: 2 * time.Second, Lead: "stopped", Runs: []plannedRun{
			{ID: "stopped", Name: "job", Date: "2026-01-01", Job: job{Life: 4 * time.Second}, Harm: &plannedHarm{harmStopLockrun, 400 * ms, 3600 * ms}},
			run("next", 3100*ms, "2026-01-02", job{Life: 300 * ms}),
		}},
		rules: []string{ruleLate, ruleOverlap},
	},
	{
		name:    "lockrun without a deadline",
		patches: []patch{{"runner/supervise/tree_judge_linux.go", "case now >= until:", "case now >= until.Add(3600e9):"}},
		plan: &plan{
			TTL: 2 * time.Second, Lead: "stopped",
			Runs: []plannedRun{
				{ID: "stopped", Name: "job", Date: "2026-01-01", Job: job{Life: 4 * time.Second}, Harm: &plannedHarm{harmStopGuard, 300 * ms, 3700 * ms}},
				run("next", 3200*ms, "2026-01-02", job{Life: 300 * ms}),
			},
			Faults: []plannedFault{{At: 400 * ms, For: 2500 * ms, Kind: "postgres wire cut"}},
		},
		rules: []string{ruleLate, ruleOverlap},
	},
	{
		name:    "lost runs end with the child's code",
		patches: []patch{{"runner/exitcode.go", "case e.lost:", "case false:"}},
		plan: &plan{TTL: 2 * time.Second, Lead: "orphan", Runs: []plannedRun{
			{ID: "orphan", Name: "job", Date: "2026-01-01", Job: job{Life: 2 * time.Second}, Harm: &plannedHarm{harmKillGuard, 500 * ms, 0}},
		}},
		rules: []string{ruleExit},
	},
	{
		name:    "outbox skipped",
		patches: []patch{{"runner/finish.go", "kept = x.keepEnd(&end, endedAt)", `kept = "in the outbox"`}},
		plan: &plan{
			TTL: 2 * time.Second, Lead: "unrecorded",
			Runs:   []plannedRun{run("unrecorded", 0, "2026-01-01", job{Life: 500 * ms})},
			Faults: []plannedFault{{At: 100 * ms, For: 4 * time.Second, Kind: "postgres wire cut"}},
		},
		rules: []string{ruleRecord},
	},
}

// build makes the mutant. A patch that does not apply any more is an error: the
// door that it takes out has moved.
func (m *mutant) build() (string, error) {
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		return "", err
	}
	texts := map[string]string{}
	for _, p := range m.patches {
		path := filepath.Join(root, p.file)
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], p.old); n != 1 {
			return "", fmt.Errorf("%s: %q stands there %d times, want once; bring the patch up to date", p.file, p.old, n)
		}
		texts[path] = strings.Replace(texts[path], p.old, p.new, 1)
	}
	name := strings.NewReplacer(" ", "-", "'", "").Replace(m.name)
	dir := filepath.Join(buildDir, "overlay-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		overlay.Replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(overlay.Replace[path], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	return build("lockrun-"+name, "-overlay", file, "-ldflags=-s -w")
}

// TestMutants shows that the judge has teeth: each mutant is caught in a
// schedule that the real program survives.
func TestMutants(t *testing.T) {
	unharmed := program(t)
	paths := make([]string, len(mutants))
	for i := range mutants {
		path, err := mutants[i].build()
		if err != nil {
			t.Fatalf("%s: %v", mutants[i].name, err)
		}
		paths[i] = path
	}
	for i, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			t.Run("survived", func(t *testing.T) {
				t.Parallel()
				always := func(verdict) bool { return true }
				if v := directed(t, unharmed, m.plan, always); len(v.Violations) > 0 {
					t.Errorf("the real program breaks its promises:\n%v", v)
				}
			})
			t.Run("caught", func(t *testing.T) {
				t.Parallel()
				caught := func(v verdict) bool {
					return slices.ContainsFunc(v.Violations, func(x violation) bool { return slices.Contains(m.rules, x.Rule) })
				}
				if v := directed(t, paths[i], m.plan, caught); caught(v) {
					t.Log(v.Violations[0])
				} else {
					t.Errorf("not caught; the judge found only this:\n%v", v)
				}
			})
		})
	}
}

// directed plays a schedule until the verdict is what was looked for. On a busy
// machine lockrun may give up before the schedule comes to its point, as it
// should; then it is played again. One that never gets there has shown nothing.
func directed(t *testing.T, program string, p *plan, enough func(verdict) bool) (v verdict) {
	postgres := locktest.SharedPostgres(t)
	if p.Shift != 0 {
		postgres = ownPostgres(t)
	}
	w := newWorld(t, program, postgres)
	judged := false
	for range 4 {
		w.begin(p)
		h := w.play(p)
		w.finish()
		if h.Pointless {
			continue
		}
		judged = true
		if v = judge(h); enough(v) {
			return v
		}
	}
	if !judged {
		t.Fatal("the schedule never came to its point; is the machine very busy?")
	}
	return v
}
