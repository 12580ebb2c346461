package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/locks/quorum"
	"lockrun/runner"
)

// operatorQuorum is the quorum of these stores, nil if they have none.
func operatorQuorum(st stores) (*quorum.Quorum, error) {
	if st.local || len(st.redis) == 0 {
		return nil, nil
	}
	t, err := locks.NewTiming(time.Minute, -1)
	if err != nil {
		return nil, err
	}
	return newQuorum(quorum.Options{URLs: st.redis, TLS: st.tls, Timing: t, Clock: locks.SystemClock{}})
}

// newQuorum tells options that can't be used from a set-up that is wrong.
func newQuorum(o quorum.Options) (*quorum.Quorum, error) {
	q, err := quorum.New(o)
	var setup *locks.SetupError
	switch {
	case errors.As(err, &setup):
		return nil, setup
	case err != nil:
		return nil, usagef("%w", err)
	}
	return q, nil
}

// leaseless finds the locks of a name whose runs hold no lease: a run that died
// between the first door and the second leaves one, and a run on its way has one
// for a moment. The leases are read after the locks, because that is the order
// in which a run takes them. away says which nodes could not be asked.
func leaseless(ctx context.Context, q *quorum.Quorum, l guard.Ledger, name string) (found []quorum.Lock, away, err error) {
	all, away := q.Locks(ctx, name)
	if len(all) == 0 {
		return nil, away, nil
	}
	rows, err := l.Latest(ctx, name)
	if err != nil {
		return nil, away, err
	}
	for _, lock := range all {
		if !holds(rows, lock.By.RunID) {
			found = append(found, lock)
		}
	}
	return found, away, nil
}

// holds tells whether that run holds a lease among these.
func holds(rows *guard.Rows, runID string) bool {
	return slices.ContainsFunc(rows.Leases, func(l guard.Lease) bool { return l.RunID == runID && l.Live(rows.At) })
}

// doorSlack is what is added to half of a ttl, within which a run is through all
// doors, for its last call and for clocks that differ.
const doorSlack = 10 * time.Second

// abandonedAt is the moment after which the run of a lock without a lease has
// given up or is dead.
func abandonedAt(by *locks.Holder) time.Time {
	half := time.Duration(0)
	if by.Until.After(by.Since) {
		half = by.Until.Sub(by.Since) / 2
	}
	return by.Since.Add(half + doorSlack)
}

// lockJSON is a lock in the audit. The keys are those of a lease.
type lockJSON struct {
	Lock       string   `json:"lock"`
	RunID      string   `json:"run_id"`
	Holder     string   `json:"holder"`
	PID        int      `json:"pid"`
	AcquiredAt jsonTime `json:"acquired_at"`
	ExpiresAt  jsonTime `json:"expires_at"`
}

// removedLocks is what became of locks without a lease.
type removedLocks struct {
	lines  []string // for people
	audits []*guard.Audit
	away   error // nodes that could not be asked
}

// releaseLocks removes the locks of a name that have no lease. Each goes on
// record before it is removed.
func releaseLocks(ctx context.Context, q *quorum.Quorum, l guard.Ledger, e *guard.Eviction) (done removedLocks, err error) {
	found, away, err := leaseless(ctx, q, l, e.Name)
	done.away = away
	if err != nil {
		return done, err
	}
	for _, lock := range found {
		if from := abandonedAt(&lock.By); !e.Force && !time.Now().After(from) {
			held := &locks.HeldError{Tier: quorumTier, By: lock.By}
			return done, &exitError{kind: runner.EventHeld, code: runner.ExitHeld, held: held, err: fmt.Errorf(
				"%s; it has no lease, which its run may be about to take: if that is dead, release it from %s on, or with --force",
				heldText(held, "so it was left"), stamp(from.Add(time.Second)))}
		}
		before, err := json.Marshal(lockJSON{
			Lock: lock.Key, RunID: lock.By.RunID, Holder: lock.By.Text, PID: lock.By.PID, AcquiredAt: jsonTime(lock.By.Since),
			ExpiresAt: jsonTime(lock.By.Until),
		})
		if err != nil {
			return done, err
		}
		audit, err := l.Note(ctx, &guard.Audit{Actor: e.Actor, Action: "release", Name: e.Name, Reason: e.Reason, Before: string(before)})
		if err != nil {
			return done, err
		}
		done.audits = append(done.audits, audit)
		removed, err := q.ReleaseRun(ctx, e.Name, lock.By.RunID)
		done.lines = append(done.lines, fmt.Sprintf("%s: the Redis lock of %s (pid %d) since %s, which has no lease, is removed from %d Redis nodes",
			e.Name, lock.By.Text, lock.By.PID, stamp(lock.By.Since), removed))
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// lockStandings shows the locks of a name that have no lease.
func lockStandings(ctx context.Context, q *quorum.Quorum, l guard.Ledger, name string) (list []guard.Standing, away, err error) {
	found, away, err := leaseless(ctx, q, l, name)
	for _, lock := range found {
		s := guard.Standing{AcquiredAt: lock.By.Since, ExpiresAt: lock.By.Until}
		s.Name, s.RunID, s.Holder, s.PID = name, lock.By.RunID, lock.By.Text, lock.By.PID
		end := "without an end"
		if !lock.By.Until.IsZero() {
			end = "until " + stamp(lock.By.Until)
		}
		s.Notes = []string{fmt.Sprintf("a lock in Redis, since %s, %s, that has no lease: its run is about to take it, or is dead (see lockrun release)", stamp(lock.By.Since), end)}
		list = append(list, s)
	}
	return list, away, err
}
