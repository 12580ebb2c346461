//go:build linux

package chaos

import (
	"reflect"
	"testing"
)

// A seed is a schedule, and seeds in a row bring every kind of fault, also
// those that need a pooler.
func TestPlan(t *testing.T) {
	kinds, harmed, pairs := map[string]bool{}, map[string]bool{}, 0
	for seed := range uint64(1000) {
		p := newPlan(seed)
		if !reflect.DeepEqual(p, newPlan(seed)) {
			t.Fatalf("seed %d makes different plans", seed)
		}
		for _, f := range p.Faults {
			if kinds[f.Kind] = true; faultNamed(f.Kind) == nil {
				t.Fatalf("seed %d: there is no fault %q", seed, f.Kind)
			}
			if f.Kind != p.Faults[0].Kind {
				pairs++
			}
		}
		ids := map[string]bool{}
		for _, r := range p.Runs {
			if ids[r.ID] {
				t.Fatalf("seed %d: two runs %q", seed, r.ID)
			}
			ids[r.ID] = true
			if r.Harm != nil {
				harmed[r.Harm.What] = true
			}
		}
	}
	if len(kinds) != len(faults) || len(harmed) != len(harms) || pairs == 0 {
		t.Errorf("%d of %d kinds of faults, %d of %d harms, %d in pairs", len(kinds), len(faults), len(harmed), len(harms), pairs)
	}
}
