//go:build linux

package chaos

import (
	"slices"
	"testing"
	"time"
)

// sec is a moment of a hand-made history.
func sec(s float64) moment { return moment(s * 1e6) }

func exits(code int) *ending { return &ending{Code: code} }

// goodHistory has one of each that may happen: a date that is done, with a
// contender that was turned away and one that came late; a date that was lost
// and run again; a name whose lockrun was killed; an end that was delivered
// later; a date that nobody could decide.
func goodHistory() *history {
	return &history{
		TTL: 2 * time.Second, KillMargin: 250 * time.Millisecond,
		Invocations: []invocation{
			{ID: "done", Name: "a", Date: "d1", Began: sec(0), Ended: sec(2)},
			{ID: "held", Name: "a", Date: "d1", Began: sec(1), Ended: sec(1.1), End: ending{Code: 75}},
			{ID: "late", Name: "a", Date: "d1", Began: sec(3), Ended: sec(3.1)},
			{ID: "lost", Name: "a", Date: "d2", Began: sec(4), Ended: sec(5), End: ending{Code: 70}, Harm: harmKillGuard},
			{ID: "refused", Name: "a", Date: "d2", Began: sec(6), Ended: sec(6.1), End: ending{Code: 77}},
			{ID: "again", Name: "a", Date: "d2", Began: sec(7), Ended: sec(8), End: ending{Code: 3}, Rerun: "failed"},
			{ID: "killed", Name: "b", Began: sec(0), Ended: sec(1), End: ending{Signal: 9}, Harm: harmKillLockrun},
			{ID: "kept", Name: "b", Date: "d1", Began: sec(5), Ended: sec(8), End: ending{Code: 74}},
			{ID: "undecided", Name: "b", Date: "d2", Began: sec(9), Ended: sec(10), End: ending{Code: 69}},
		},
		Children: []child{
			{Invocation: "done", RunID: "r1", Name: "a", Date: "d1", Token: 1, Start: sec(0.1), Last: sec(1.9), End: exits(0)},
			{Invocation: "lost", RunID: "r2", Name: "a", Date: "d2", Token: 2, Start: sec(4.1), Last: sec(4.9)},
			{Invocation: "again", RunID: "r3", Name: "a", Date: "d2", Token: 3, Start: sec(7.1), Last: sec(7.9), End: exits(3)},
			{Invocation: "killed", RunID: "r4", Name: "b", Token: 1, Start: sec(0.1), Last: sec(1.1)},
			{Invocation: "kept", RunID: "r5", Name: "b", Date: "d1", Token: 2, Start: sec(5.1), Last: sec(6), End: exits(0)},
		},
		Leases: []lease{
			{"a", "r1", 1, sec(0.05), sec(0.05), sec(2.05)},
			{"a", "r1", 1, sec(0.05), sec(0.7), sec(2.7)},
			{"a", "r1", 1, sec(0.05), sec(1.95), sec(1.95)},
			{"a", "r2", 2, sec(4.05), sec(4.05), sec(6.05)},
			{"a", "r2", 2, sec(4.05), sec(4.95), sec(4.95)},
			{"a", "r3", 3, sec(7.05), sec(7.05), sec(9.05)},
			{"b", "r4", 1, sec(0.05), sec(0.05), sec(2.05)},
			{"b", "r5", 2, sec(5.05), sec(5.05), sec(7.05)},
		},
		Attempts: []attempt{
			{"done", "r1", "a", "d1", 1, "succeeded", 0, ""},
			{"lost", "r2", "a", "d2", 2, "lost", -1, "SIGKILL"},
			{"again", "r3", "a", "d2", 3, "failed", 3, ""},
			{"killed", "r4", "b", "", 1, "running", -1, ""},
			{"kept", "r5", "b", "d1", 2, "succeeded", 0, ""},
			{"undecided", "r6", "b", "d2", 0, "not_started", -1, ""},
		},
		Dates: []date{{"a", "d1", "succeeded", "r1"}, {"a", "d2", "failed", "r3"}, {"b", "d1", "succeeded", "r5"}},
		Ledger: []posting{
			{1, "a", "r1", 1}, {2, "b", "r4", 1}, {3, "a", "r1", 1}, {9, "a", "r2", 2}, {10, "a", "r3", 3},
		},
	}
}

func TestJudgeAcquits(t *testing.T) {
	for name, change := range map[string]func(h *history){
		"as_it_is": func(*history) {},
		"last_sign_at_the_end_of_the_lease": func(h *history) {
			h.Children[3].Last = sec(2.05)
		},
		"two_names_at_once": func(h *history) {
			h.Children[3].Start, h.Leases[6].At, h.Leases[6].Acquired = sec(0.1), sec(0.05), sec(0.05)
		},
		"died_of_its_own_signal": func(h *history) {
			h.Invocations[5].End, h.Children[2].End = ending{Signal: 9}, &ending{Signal: 9}
			h.Attempts[2].Code, h.Attempts[2].Signal = -1, "SIGKILL"
		},
		"stopped_before_the_start": func(h *history) {
			h.Invocations[8].End, h.Invocations[8].Harm = ending{Signal: 15}, harmTermLockrun
		},
		"killed_after_its_record": func(h *history) {
			h.Invocations[0].End, h.Invocations[0].Harm = ending{Signal: 9}, harmKillLockrun
		},
		"its_own_late_copy_took_the_lease_again": func(h *history) {
			h.Leases = append(h.Leases, lease{"b", "r5", 2, sec(8), sec(8), sec(10)})
		},
		"ended_by_max_runtime": func(h *history) {
			h.Invocations[3].End.Code, h.Invocations[3].Limited, h.Attempts[1].Outcome = 124, true, "timeout"
		},
		"death_not_proved": func(h *history) {
			h.Invocations[3].Unproved, h.Invocations[5].Rerun = true, "unknown"
			h.Invocations[5].End, h.Children = ending{Code: 77}, slices.Delete(h.Children, 2, 3)
			h.Attempts, h.Ledger = slices.Delete(h.Attempts, 2, 3), h.Ledger[:4]
			h.Dates[1] = date{"a", "d2", "running", "r2"}
		},
		"refused_while_an_undo_waits_in_the_outbox": func(h *history) {
			h.Invocations[8].MayBeTaken = true
			h.Invocations = append(h.Invocations, invocation{ID: "after", Name: "b", Date: "d2", Began: sec(11), Ended: sec(11.1), End: ending{Code: 77}})
		},
		"refused_after_a_child_that_died_before_its_first_word": func(h *history) {
			h.Invocations[8].End, h.Invocations[8].Harm = ending{Signal: 15}, harmTermLockrun
			h.Attempts[5].Outcome, h.Attempts[5].Signal = "failed", "SIGTERM"
			h.Invocations = append(h.Invocations, invocation{ID: "after", Name: "b", Date: "d2", Began: sec(11), Ended: sec(11.1), End: ending{Code: 77}})
		},
		"success_told_after_the_rerun_by_one_that_was_stopped": func(h *history) {
			h.Invocations[3].End, h.Children[1].End = ending{}, exits(0)
			h.Invocations[3].Harm, h.Invocations[3].Ended = harmStopLockrun, sec(8.5)
			h.Invocations[5].Rerun = "failed,unknown"
			h.Attempts[1].Outcome, h.Attempts[1].Code, h.Attempts[1].Signal = "succeeded", 0, ""
		},
		"success_told_after_the_lease_was_taken": func(h *history) { // the database hung meanwhile
			h.Invocations[3].End, h.Children[1].End = ending{}, exits(0)
			h.Invocations[3].Harm, h.Invocations[3].Ended = "", sec(7.06) // before the next child's first word
			h.Invocations[5].Rerun = "failed,unknown"
			h.Attempts[1].Outcome, h.Attempts[1].Code, h.Attempts[1].Signal = "succeeded", 0, ""
		},
		"machine_stood_still": func(h *history) {
			h.Children[3].Last = sec(2.1)
			h.Stalls = []span{{From: sec(1.75), To: sec(2.05)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := goodHistory()
			change(h)
			if v := judge(h); len(v.Violations) > 0 {
				t.Errorf("a history in which all is well:\n%v", v)
			}
		})
	}
}

func TestJudgeConvicts(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		change     func(h *history)
	}{
		{"second_child_before_the_first_is_dead", ruleOverlap, func(h *history) { h.Children[2].Start = sec(4.8) }},
		{"overlap_hidden_by_a_short_one", ruleOverlap, func(h *history) { h.Children[0].Last = sec(7.5) }},
		{"alive_after_the_lease", ruleLate, func(h *history) { h.Children[3].Last = sec(2.06) }},
		{"alive_after_the_release", ruleLate, func(h *history) { h.Children[0].Last = sec(1.96) }},
		{"never_a_lease", ruleLate, func(h *history) { h.Leases = h.Leases[:7] }},
		{"alive_before_the_lease", ruleLate, func(h *history) { h.Leases[7].At = sec(5.2) }},
		{"pause_too_short_for_an_excuse", ruleLate, func(h *history) {
			h.Children[3].Last = sec(2.1)
			h.Stalls = []span{{From: sec(1.9), To: sec(1.95)}}
		}},
		{"too_late_for_an_excuse", ruleLate, func(h *history) {
			h.Children[3].Last = sec(3)
			h.Stalls = []span{{From: sec(1.75), To: sec(2.05)}}
		}},
		{"lease_taken_while_live", ruleRevived, func(h *history) { h.Leases[4].Until = sec(7.06) }},
		{"expired_lease_renewed", ruleRevived, func(h *history) {
			h.Leases = append(h.Leases, lease{"b", "r5", 2, sec(5.05), sec(7.1), sec(9.1)})
		}},
		{"token_goes_back", ruleToken, func(h *history) { h.Leases[5].Token, h.Children[2].Token, h.Attempts[2].Token = 1, 1, 1 }},
		{"token_repeats", ruleToken, func(h *history) { h.Children[2].Token = 2 }},
		{"date_succeeds_twice", ruleTwice, func(h *history) {
			h.Invocations[3].End, h.Children[1].End = ending{}, exits(0)
			h.Invocations[5].End, h.Children[2].End = ending{}, exits(0)
		}},
		{"date_succeeds_twice_with_leave_for_unknown_ends", ruleTwice, func(h *history) {
			h.Invocations[3].End, h.Children[1].End, h.Invocations[3].Harm = ending{}, exits(0), harmStopLockrun
			h.Invocations[5].Rerun = "failed,unknown"
		}},
		{"date_again_without_leave", ruleTwice, func(h *history) { h.Invocations[5].Rerun = "" }},
		{"cut_short_and_exit_0", ruleExit, func(h *history) { h.Invocations[3].End.Code = 0 }},
		{"cut_short_and_held", ruleExit, func(h *history) { h.Invocations[3].End.Code = 75 }},
		{"cut_short_and_undecided", ruleExit, func(h *history) { h.Invocations[3].End.Code = 69 }},
		{"failure_passes_for_success", ruleExit, func(h *history) { h.Invocations[5].End.Code = 0 }},
		{"failure_passes_for_unrecorded", ruleExit, func(h *history) { h.Invocations[5].End.Code = 74 }},
		{"success_passes_for_undecided", ruleExit, func(h *history) { h.Invocations[0].End.Code = 69 }},
		{"timeout_that_nobody_asked_for", ruleExit, func(h *history) { h.Invocations[3].End.Code = 124 }},
		{"crash", ruleExit, func(h *history) { h.Invocations[1].End.Code = 2 }},
		{"hung", ruleExit, func(h *history) { h.Invocations[1].End.Hung = true }},
		{"config_without_a_reason", ruleExit, func(h *history) { h.Invocations[1].End.Code = 78 }},
		{"unrecorded_without_a_child", ruleExit, func(h *history) { h.Invocations[8].End.Code = 74 }},
		{"lost_without_a_child_on_record", ruleExit, func(h *history) { h.Invocations[8].End.Code = 70 }},
		{"lost_without_need", ruleLoss, func(h *history) { h.Invocations[3].Survives = true }},
		{"done_but_never_succeeded", ruleRefusal, func(h *history) { h.Invocations[4].End.Code = 0 }},
		{"done_before_it_was", ruleRefusal, func(h *history) { h.Invocations[2].Began, h.Invocations[2].Ended = sec(1), sec(1.1) }},
		{"held_by_nobody", ruleRefusal, func(h *history) { h.Invocations[8].Name, h.Invocations[8].End.Code = "c", 75 }},
		{"refused_but_never_tried", ruleRefusal, func(h *history) { h.Invocations[8].End.Code = 77 }},
		{"refused_though_done", ruleRefusal, func(h *history) { h.Invocations[2].End.Code = 77 }},
		{"no_attempt", ruleRecord, func(h *history) { h.Attempts = h.Attempts[1:] }},
		{"attempt_of_another_date", ruleRecord, func(h *history) { h.Attempts[0].Date = "d2" }},
		{"success_on_record_as_failure", ruleRecord, func(h *history) { h.Attempts[0].Outcome, h.Dates[0].State = "failed", "failed" }},
		{"failure_on_record_as_success", ruleRecord, func(h *history) { h.Attempts[2].Outcome, h.Dates[1].State = "succeeded", "succeeded" }},
		{"wrong_code_on_record", ruleRecord, func(h *history) { h.Attempts[2].Code = 4 }},
		{"lost_passes_for_failed", ruleRecord, func(h *history) { h.Attempts[1].Outcome = "failed" }},
		{"left_open", ruleRecord, func(h *history) { h.Attempts[0].Outcome, h.Dates[0].State = "running", "running" }},
		{"not_started_but_it_was", ruleRecord, func(h *history) { h.Attempts[1].Outcome = "not_started" }},
		{"date_taken_by_nobody", ruleRecord, func(h *history) { h.Attempts[5].Outcome = "running" }},
		{"attempt_by_nobody", ruleRecord, func(h *history) { h.Attempts[5].Invocation = "nobody" }},
		{"date_disagrees_with_its_attempt", ruleRecord, func(h *history) { h.Dates[1].State = "running" }},
		{"date_of_an_unproved_death_is_open_again", ruleRecord, func(h *history) { h.Invocations[5].Unproved, h.Attempts[2].Outcome = true, "lost" }},
		{"date_points_nowhere", ruleRecord, func(h *history) { h.Dates[1].RunID = "r9" }},
		{"success_not_on_record", ruleRecord, func(h *history) { h.Dates = h.Dates[1:] }},
		{"kept_but_never_delivered", ruleRecord, func(h *history) { h.Attempts[4].Outcome, h.Dates[2].State = "unknown", "running" }},
		{"stale_run_in_the_ledger", ruleLedger, func(h *history) { h.Ledger = append(h.Ledger, posting{11, "a", "r2", 2}) }},
		{"ledger_of_a_run_without_a_child", ruleLedger, func(h *history) { h.Ledger = append(h.Ledger, posting{11, "b", "r6", 3}) }},
		{"key_left", ruleLeft, func(h *history) { h.Left = []string{"lockrun:lock:a"} }},
		{"held_although_all_is_quiet", ruleNotReady, func(h *history) { h.Invocations[1].Calm = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := goodHistory()
			c.change(h)
			if v := judge(h); !slices.ContainsFunc(v.Violations, func(v violation) bool { return v.Rule == c.rule }) {
				t.Errorf("not seen: %s; the judge found\n%v", c.rule, v)
			}
		})
	}
}
