//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// plan is a whole schedule. It follows from its seed alone.
type plan struct {
	Seed      uint64
	TTL       time.Duration
	KillAfter time.Duration // 0 = lockrun's default
	Shift     time.Duration // the database's clock less the host's
	Pooled    bool
	Named     bool // lockrun has names for the servers, not addresses
	Preferred bool
	Lead      string // everything else is timed from the first sign of life of this run's job; "" = from the beginning
	Runs      []plannedRun
	Faults    []plannedFault
	Closing   bool // when all is quiet, every name and date is asked for once more
}

// plannedRun is one invocation of lockrun.
type plannedRun struct {
	At             time.Duration
	ID, Name, Date string
	Wait           time.Duration
	Rerun          string
	Leftovers      string
	MaxRuntime     time.Duration
	Host           int
	Job            job
	Harm           *plannedHarm
	Survives       bool
	Calm           bool
}

// plannedHarm is done to one of the run's two supervisors, never to both: that
// is what no supervisor promises.
type plannedHarm struct {
	What   string
	After  time.Duration // of the start of lockrun, or of the lead's job
	Resume time.Duration // of what was stopped, after that
}

type plannedFault struct {
	At, For time.Duration
	Kind    string
	Node    int // of Redis
	Times   int // how many requests or answers are lost; 0 = two
}

const (
	length = 6 * time.Second // how long contenders arrive
	names  = 4
	days   = 4
)

var harms = []string{harmKillLockrun, harmStopLockrun, harmTermLockrun, harmKillGuard, harmStopGuard}

// newPlan makes the schedule of a seed.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 0x10c4))
	p := &plan{
		Seed: seed, TTL: time.Second + time.Duration(r.IntN(3))*500*time.Millisecond,
		Pooled: r.IntN(4) == 0, Preferred: r.IntN(4) == 0, Closing: true,
	}
	if r.IntN(3) == 0 {
		p.Shift = time.Duration(r.IntN(1200)-600) * time.Second
	}
	p.Faults = somethingGoesWrong(r, p)
	for i := range names {
		p.contenders(r, fmt.Sprintf("job-%c", 'a'+i))
	}
	slices.SortFunc(p.Runs, func(a, b plannedRun) int { return int(a.At - b.At) })
	for i := range p.Runs {
		p.Runs[i].ID = fmt.Sprintf("inv-%d", i)
	}
	return p
}

// somethingGoesWrong chooses one kind of fault or two that overlap, and lets each
// happen once or twice.
func somethingGoesWrong(r *rand.Rand, p *plan) (all []plannedFault) {
	kind := faults[p.Seed%uint64(len(faults))] // seeds in a row bring every kind
	p.Pooled, p.Named = p.Pooled || kind.pooled, kind.named || r.IntN(8) == 0
	var others []string
	for _, f := range faults {
		if (p.Pooled || !f.pooled) && (p.Named || !f.named) {
			others = append(others, f.name)
		}
	}
	first, second := kind.name, others[r.IntN(len(others))]
	paired := r.IntN(3) > 0
	start := 300*time.Millisecond + upTo(r, time.Second)
	for range 1 + r.IntN(2) {
		f := plannedFault{At: start, For: 100*time.Millisecond + upTo(r, 2*p.TTL), Kind: first, Node: r.IntN(nodes)}
		all = append(all, f)
		if paired {
			all = append(all, plannedFault{
				At: f.At + upTo(r, f.For), For: 100*time.Millisecond + upTo(r, 2*p.TTL), Kind: second, Node: r.IntN(nodes),
			})
		}
		start += f.For + 500*time.Millisecond + upTo(r, 2*time.Second)
	}
	return all
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

// contenders want the dates of one name, one date after the other, as crontabs
// on many hosts do.
func (p *plan) contenders(r *rand.Rand, name string) {
	rerun := []string{"", "", "failed", "failed,unknown"}[r.IntN(4)]
	undated := r.IntN(4) == 0
	step := length / days
	for day := range days {
		at := time.Duration(day)*step + upTo(r, 500*time.Millisecond)
		for range 2 + r.IntN(3) {
			run := plannedRun{
				At: at + upTo(r, step/2), Name: name, Date: fmt.Sprintf("2026-01-%02d", day+1),
				Rerun: rerun, Host: r.IntN(hosts), Job: someJob(r, p.TTL),
			}
			if undated {
				run.Date, run.Rerun = "", ""
			}
			if r.IntN(2) == 0 {
				run.Wait = upTo(r, 3*time.Second)
			}
			if r.IntN(4) == 0 {
				run.Harm = someHarm(r, p.TTL, run.Job.Life)
			}
			if r.IntN(8) == 0 {
				run.Leftovers = "wait"
			}
			if r.IntN(10) == 0 {
				run.MaxRuntime = 100*time.Millisecond + upTo(r, p.TTL)
			}
			p.Runs = append(p.Runs, run)
		}
	}
}

func someJob(r *rand.Rand, ttl time.Duration) job {
	j := job{Life: 50*time.Millisecond + upTo(r, 2*ttl)}
	switch r.IntN(8) {
	case 0:
		j.Code = 3
	case 1:
		j.Signal = 9
	case 2:
		j.Heir = j.Life + upTo(r, time.Second)
	case 3:
		j.Deaf = true
	}
	return j
}

// someHarm comes on the way to the start, or while the job lives and ends.
func someHarm(r *rand.Rand, ttl time.Duration, life time.Duration) *plannedHarm {
	after := upTo(r, 150*time.Millisecond)
	if r.IntN(3) > 0 {
		after = upTo(r, life+300*time.Millisecond)
	}
	return &plannedHarm{What: harms[r.IntN(len(harms))], After: after, Resume: upTo(r, 2*ttl)}
}

func (p *plan) String() string {
	text := fmt.Sprintf("seed %d, ttl %s, clocks %s apart, %d runs", p.Seed, p.TTL, p.Shift, len(p.Runs))
	if p.Pooled {
		text += ", pooled"
	}
	if p.Named {
		text += ", by name"
	}
	if p.Preferred {
		text += ", quorum preferred"
	}
	for _, f := range p.Faults {
		text += fmt.Sprintf("; at %s for %s: %s (node %d)", f.At.Round(time.Millisecond), f.For.Round(time.Millisecond), f.Kind, f.Node)
	}
	return text
}
