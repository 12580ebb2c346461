//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// summary counts what was done and seen.
type summary struct {
	mu                               sync.Mutex
	begun                            time.Time
	schedules, invocations, children int
	excused, unproved, broken        int
	faults, ends, pairs              map[string]int
}

func newSummary() *summary {
	return &summary{begun: time.Now(), faults: map[string]int{}, ends: map[string]int{}, pairs: map[string]int{}}
}

func (s *summary) add(p *plan, h *history, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedules++
	s.invocations += len(h.Invocations)
	s.children += len(h.Children)
	s.excused += v.Excused
	s.broken += len(v.Violations)
	for _, f := range h.Faults {
		s.faults[f.What]++
		for _, g := range h.Faults {
			if f.What < g.What && f.overlaps(g.From, g.To) {
				s.pairs[f.What+" + "+g.What]++
			}
		}
	}
	if p.Shift != 0 {
		s.faults["clocks apart"]++
	}
	for _, i := range h.Invocations {
		s.ends[i.End.String()]++
		if i.Harm != "" {
			s.faults[i.Harm]++
		}
		if i.Unproved {
			s.unproved++
		}
	}
}

func (s *summary) print() {
	fmt.Printf("chaos: %s, %d schedules, %d invocations, %d children, %d violations\n",
		time.Since(s.begun).Round(time.Second), s.schedules, s.invocations, s.children, s.broken)
	fmt.Printf("a machine that stood still: %d late signs of life excused, %d deaths that lockrun did not see in time and said so\n", s.excused, s.unproved)
	fmt.Printf("faults: %s\n", counts(s.faults))
	fmt.Printf("kinds of pairs: %d\n", len(s.pairs))
	fmt.Printf("ends: %s\n", counts(s.ends))
}

func counts(m map[string]int) string {
	var texts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		texts = append(texts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(texts, ", ")
}
