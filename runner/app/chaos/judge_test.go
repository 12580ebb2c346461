//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// violation is a promise that was not kept.
type violation struct{ Rule, What string }

// verdict is what the judge has to say about a history.
type verdict struct {
	Violations []violation
	Excused    int // late signs of life while the machine stood still
}

func (v verdict) String() string {
	lines := make([]string, len(v.Violations))
	for i, x := range v.Violations {
		lines[i] = x.Rule + ": " + x.What
	}
	return strings.Join(lines, "\n")
}

// The names of the rules.
const (
	ruleOverlap  = "two children of a name at once"
	ruleLate     = "a child alive without a lease"
	ruleRevived  = "an expired lease renewed, or a live one taken"
	ruleToken    = "a token that does not grow"
	ruleTwice    = "a date started again without leave"
	ruleExit     = "an exit code that disagrees with the child"
	ruleLoss     = "a run lost without need"
	ruleRecord   = "a record that disagrees with the truth"
	ruleRefusal  = "a refusal without its reason"
	ruleLedger   = "a stale run in the ledger"
	ruleLeft     = "something left behind"
	ruleNotReady = "not in order although all is quiet"
)

// judging is one judgement. The maps are views of the history.
type judging struct {
	*history
	verdict     verdict
	invocations map[string]*invocation
	childOf     map[string]*child // by invocation
	childOfRun  map[string]*child
	attempts    map[string]*attempt // by run
	byName      map[string][]*child // in order of their starts
}

// judge decides whether the history keeps the promises.
func judge(h *history) verdict {
	j := &judging{
		history: h, invocations: map[string]*invocation{}, childOf: map[string]*child{}, childOfRun: map[string]*child{},
		attempts: map[string]*attempt{}, byName: map[string][]*child{},
	}
	for i := range h.Invocations {
		j.invocations[h.Invocations[i].ID] = &h.Invocations[i]
	}
	for i := range h.Attempts {
		j.attempts[h.Attempts[i].RunID] = &h.Attempts[i]
	}
	for i := range h.Children {
		c := &h.Children[i]
		j.childOf[c.Invocation], j.childOfRun[c.RunID] = c, c
		j.byName[c.Name] = append(j.byName[c.Name], c)
	}
	for _, all := range j.byName {
		slices.SortFunc(all, func(a, b *child) int { return cmp.Compare(a.Start, b.Start) })
	}
	j.overlaps()
	j.leases()
	j.dates()
	j.ledger()
	for i := range h.Invocations {
		j.end(&h.Invocations[i])
	}
	j.record()
	for _, what := range h.Left {
		j.blame(ruleLeft, "%s", what)
	}
	return j.verdict
}

func (j *judging) blame(rule, format string, args ...any) {
	j.verdict.Violations = append(j.verdict.Violations, violation{rule, fmt.Sprintf(format, args...)})
}

// late blames for a sign of life at a moment when there should have been none
// since due, unless the machine stood still for so long that no supervisor
// could do anything about it.
func (j *judging) late(rule string, due, seen moment, format string, args ...any) {
	var still time.Duration
	for _, s := range j.Stalls {
		from, to := max(s.From, due.add(-2*j.KillMargin)), min(s.To, seen)
		if to > from {
			still += to.sub(from)
		}
	}
	if still >= j.KillMargin/2 && seen.sub(due) <= 2*still {
		j.verdict.Excused++
		return
	}
	j.blame(rule, format, args...)
}

// overlaps: two children of one name never run at the same time.
func (j *judging) overlaps() {
	for _, all := range j.byName {
		var last *child
		for _, c := range all {
			if last != nil && c.Start <= last.Last {
				j.late(ruleOverlap, c.Start, last.Last, "%s; %s", last, c)
			}
			if last != nil && c.Token <= last.Token {
				j.blame(ruleToken, "%s after %s", c, last)
			}
			if last == nil || c.Last > last.Last {
				last = c
			}
		}
	}
}

// leases: a child lives within its run's lease, whose every state the database
// has kept.
func (j *judging) leases() {
	tenures := map[string][]span{} // by run
	holder := map[string]lease{}
	for _, l := range j.Leases {
		before, ok := holder[l.Name]
		switch {
		case ok && before.RunID != l.RunID && before.Until > l.At:
			j.blame(ruleRevived, "%s was run %s's until %s, run %s took it at %s", l.Name, before.RunID, before.Until, l.RunID, l.At)
		case ok && before.RunID == l.RunID && before.Acquired == l.Acquired && before.Until.add(clockTolerance) <= l.At && l.Until > l.At:
			j.blame(ruleRevived, "%s was run %s's until %s, and was extended at %s", l.Name, l.RunID, before.Until, l.At)
		case ok && l.Token < before.Token:
			j.blame(ruleToken, "%s: token %d after %d", l.Name, l.Token, before.Token)
		}
		holder[l.Name] = l
		all := tenures[l.RunID]
		if n := len(all); n == 0 || all[n-1].To < l.At && l.Until > l.At {
			tenures[l.RunID] = append(all, span{From: l.At, To: l.Until})
		} else {
			all[n-1].To = l.Until
		}
	}
	for i := range j.Children {
		c := &j.Children[i]
		end := moment(0)
		for _, s := range tenures[c.RunID] {
			if s.From <= c.Start {
				end = s.To
			}
		}
		switch {
		case end == 0:
			j.blame(ruleLate, "%s never had one", c)
		case c.Last > end:
			j.late(ruleLate, end, c.Last, "%s, its lease ended at %s", c, end)
		}
	}
}

// clockTolerance is what may pass between the two readings of the database's
// clock in one statement, the check and the value.
const clockTolerance = time.Millisecond

// dates: what was started once is started again only if --rerun says so, and
// never after lockrun has said that it succeeded. One that was stopped past its
// lease, or whose database did not answer until then, says so only afterwards:
// until then its end is unknown.
func (j *judging) dates() {
	for _, all := range j.byName {
		earlier := map[string]*child{}
		for _, c := range all {
			before := earlier[c.Date]
			earlier[c.Date] = c
			if before == nil || c.Date == "" {
				continue
			}
			was, now := j.invocations[before.Invocation], j.invocations[c.Invocation]
			unknown := j.taken(c) < was.Ended && strings.Contains(now.Rerun, "unknown")
			if now.Rerun == "" || was.End == (ending{}) && !unknown {
				j.blame(ruleTwice, "%s after %s, whose lockrun said %q; --rerun %q", c, before, was.End, now.Rerun)
			}
		}
	}
}

// taken is when the child's run took its lease. Whether it was free then is judged
// elsewhere.
func (j *judging) taken(c *child) moment {
	i := slices.IndexFunc(j.Leases, func(l lease) bool { return l.RunID == c.RunID })
	if i < 0 {
		return c.Start
	}
	return j.Leases[i].At
}

// ledger: what was written behind the fence is in the order of the tokens, and
// by runs that had children.
func (j *judging) ledger() {
	last := map[string]posting{}
	for _, p := range j.Ledger {
		if before := last[p.Name]; p.Token < before.Token {
			j.blame(ruleLedger, "line %d of %s has token %d, line %d had %d", p.Number, p.Name, p.Token, before.Number, before.Token)
		}
		last[p.Name] = p
		if c := j.childOfRun[p.RunID]; c == nil || c.Name != p.Name || c.Token != p.Token {
			j.blame(ruleLedger, "line %d is of run %s, token %d, which had no such child", p.Number, p.RunID, p.Token)
		}
	}
}
