package guard

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// StateUnknown is what people are shown for a guard row that is running while
// its run has no live lease. No row ever says so.
const StateUnknown State = "unknown"

// Standing is one line of the answer to "who holds what, and how do things
// stand": a run that holds a lease, has the latest date of its name, or never
// said how it ended. All of it is about one run id.
type Standing struct {
	Run        // State is StateUnknown for an unknown one; an outcome for a run without a date
	Token      int64
	AcquiredAt time.Time // this and the next two are zero if another run has had the lease since
	RenewedAt  time.Time
	ExpiresAt  time.Time
	Held       bool     // it holds the lease now
	Notes      []string // what is odd about its rows, for people
}

// Overview puts the rows of [Ledger.Latest] together: by name, the latest date
// first.
func Overview(rows *Rows) []Standing {
	attempts := make(map[string]*Attempt, len(rows.Attempts))
	for i := range rows.Attempts {
		attempts[rows.Attempts[i].RunID] = &rows.Attempts[i]
	}
	leases := make(map[string]*Lease, len(rows.Leases))
	for i := range rows.Leases {
		leases[rows.Leases[i].Name] = &rows.Leases[i]
	}
	var list []Standing
	dated, shown := map[string]bool{}, map[[2]string]bool{}
	for _, r := range rows.Runs {
		dated[r.Name] = true
		shown[[2]string{r.Name, r.RunID}] = true
		list = append(list, standing(r, attempts[r.RunID], leases[r.Name], rows.At))
	}
	for i := range rows.Leases {
		l := &rows.Leases[i]
		if shown[[2]string{l.Name, l.RunID}] || dated[l.Name] && !l.Live(rows.At) && !l.Absurd(rows.At) {
			continue
		}
		list = append(list, standing(undated(l, attempts[l.RunID]), attempts[l.RunID], l, rows.At))
	}
	slices.SortStableFunc(list, func(a, b Standing) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), -strings.Compare(a.Date, b.Date))
	})
	return list
}

// undated is the run of a lease that no guard row points to.
func undated(l *Lease, a *Attempt) Run {
	if a == nil {
		return Run{Name: l.Name, RunID: l.RunID, StartedAt: l.AcquiredAt}
	}
	return Run{
		Name: l.Name, Date: a.Date, RunID: l.RunID, Attempt: a.Attempt, State: State(a.Outcome),
		StartedAt: a.StartedAt, EndedAt: a.EndedAt, ExitCode: a.ExitCode, Signal: a.Signal, Reason: a.Reason,
	}
}

func standing(r Run, a *Attempt, l *Lease, now time.Time) Standing {
	s := Standing{Run: r}
	if a != nil {
		s.Holder, s.Host, s.PID, s.Token = a.Holder, a.Host, a.PID, a.Token
	} else {
		s.Notes = append(s.Notes, "it has no attempt")
	}
	if l != nil && l.RunID == r.RunID {
		s.Holder, s.PID, s.Token = l.Holder, l.PID, l.Token
		s.AcquiredAt, s.RenewedAt, s.ExpiresAt = l.AcquiredAt, l.RenewedAt, l.ExpiresAt
		s.Held = l.Live(now)
		s.Notes = append(s.Notes, l.odd(now)...)
	}
	if s.State == Running && !s.Held {
		s.State = StateUnknown
	}
	return s
}

// odd says what is wrong with a lease that is worth a word.
func (l *Lease) odd(now time.Time) (notes []string) {
	if strings.TrimSpace(l.Holder) == "" {
		notes = append(notes, "the holder has no name")
	}
	switch {
	case l.AcquiredAt.IsZero() || l.RenewedAt.IsZero() || l.ExpiresAt.IsZero():
		notes = append(notes, "a time of the lease can't be read")
	case !l.Live(now):
	case l.Absurd(now):
		notes = append(notes, "the lease is absurdly long, until "+l.ExpiresAt.UTC().Format(time.RFC3339))
	case l.Ended:
		notes = append(notes, "the run has ended, --at-least keeps its lease")
	case l.Overdue(now):
		notes = append(notes, "the holder has missed a renewal")
	}
	return notes
}

// History gives the attempts of [Ledger.All], newest first. One that is running
// without a live lease is unknown, whether or not a row says so yet.
func History(rows *Rows) []Attempt {
	live := liveRuns(rows)
	list := slices.Clone(rows.Attempts)
	for i := range list {
		if list[i].Outcome == OutcomeRunning && !live[list[i].RunID] {
			list[i].Outcome = OutcomeUnknown
		}
	}
	slices.SortStableFunc(list, func(a, b Attempt) int {
		return cmp.Or(-a.StartedAt.Compare(b.StartedAt), -cmp.Compare(a.Attempt, b.Attempt), strings.Compare(a.RunID, b.RunID))
	})
	return list
}

// liveRuns are the run ids that hold a lease.
func liveRuns(rows *Rows) map[string]bool {
	live := map[string]bool{}
	for i := range rows.Leases {
		if l := &rows.Leases[i]; l.Live(rows.At) {
			live[l.RunID] = true
		}
	}
	return live
}
