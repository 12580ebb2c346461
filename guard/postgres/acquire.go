package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks"
)

// asking is one Acquire.
type asking struct {
	*Store
	r     *guard.Request
	mark  string // stands in the text of each statement, to find its session by
	pause *backoff.ExponentialBackOff
	// unanswered is set once a request may have reached the server and its
	// answer did not come: it may take lease and date at any later time.
	unanswered bool
	last       error         // the last failure, for the error at the end
	lastAfter  time.Duration // what it took
	doubted    string        // the run that was found unknown, once
	free       string        // the free lease that was seen and not taken
	sights     int           // how often in a row
	elapsed    time.Duration // since lockrun was started, when the last acquire was sent
	half       bool          // the last acquire undid itself: it had the lease, and no more
	copied     bool          // an earlier copy of the acquire was granted
}

// Acquire is the store's part of [guard.Store]. With ctx it has a bound; each
// try within it has one of its own.
//
// A verdict other than Granted after an unanswered try undoes this run id first.
// It can't be granted afterwards: whoever asks again needs a new one.
func (s *Store) Acquire(ctx context.Context, r *guard.Request) (guard.Answer, error) {
	id, err := uuid.Parse(r.RunID)
	if err != nil {
		return guard.Answer{}, &locks.SetupError{What: "run id", Err: err}
	}
	q := &asking{Store: s, r: r, mark: "lockrun acquire " + id.String()}
	q.pause = backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(s.timing.Call/10, 100*time.Millisecond)),
		backoff.WithMaxInterval(min(s.timing.Call, time.Second)), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		answer, err, decided := q.try(ctx)
		if decided {
			return answer, err
		}
	}
	return guard.Answer{}, q.gaveUp(ctx)
}

// try asks once. If nothing came of it, it has waited as long as makes sense
// before the next time.
func (q *asking) try(ctx context.Context) (_ guard.Answer, err error, decided bool) {
	started := time.Now()
	granted, err := q.ask(ctx)
	if err != nil && classify(err) == lockWait && !q.unanswered {
		var held *guard.Answer
		if granted, held, err = q.askWatched(ctx); held != nil {
			return *held, nil, true
		}
	}
	if granted != nil {
		return *granted, nil, true
	}
	q.half = err != nil && classify(err) == lostRace
	if err != nil && !q.half {
		if classify(err) == unknown {
			q.unanswered = true
		}
		return q.missed(ctx, err, started)
	}
	row, err := q.askWhy(ctx)
	if err != nil {
		return q.missed(ctx, err, started)
	}
	answer, err, decided := q.judge(ctx, row)
	if !decided || err != nil || !q.unanswered {
		return answer, err, decided
	}
	if err := q.Undo(ctx, q.r, "an unanswered request, undone after the answer to a later one"); err != nil {
		q.last = err
		return guard.Answer{}, q.gaveUp(ctx), true
	}
	return answer, nil, true
}

// missed is what a question without an answer leads to: an end, or another try.
func (q *asking) missed(ctx context.Context, err error, started time.Time) (_ guard.Answer, _ error, decided bool) {
	if q.last == nil || !ending(ctx) { // that ctx ended explains nothing
		q.last, q.lastAfter = err, time.Since(started)
	}
	if classify(err) == permanent {
		return guard.Answer{}, q.refused(err), true
	}
	q.sleep(ctx)
	return guard.Answer{}, nil, false
}

// judge makes a verdict of what stood in the way. If nothing does any more, there
// is no verdict yet.
func (q *asking) judge(ctx context.Context, row *row) (_ guard.Answer, err error, decided bool) {
	if err := q.cfg.schemaFault(row.schemaRows, row.schemaVersion, guard.SchemaVersion); err != nil {
		return guard.Answer{}, q.refused(err), true
	}
	answer := guard.Answer{At: row.at()}
	if row.own && !q.copied { // of the copy that was granted, the date was judged then
		q.copied = true
		return answer, nil, false
	}
	if row.over {
		return answer, &locks.UnavailableError{
			What: q.cfg.what(), Err: errors.New("this run has ended already, or was undone"), Taken: q.unanswered,
		}, true
	}
	if !row.fit {
		answer.Verdict, answer.Meant = guard.WrongDate, row.at().Add(-row.elapsed)
		return answer, nil, true
	}
	prior, held := row.prior(q.r), row.held()
	priorLive := prior != nil && held != nil && held.By.RunID == prior.RunID
	answer.Verdict = guard.Decide(prior, priorLive, q.r.Rerun)
	switch answer.Verdict {
	case guard.Held:
		answer.Held = held
	case guard.AlreadyDone, guard.WasFailed:
		answer.Prior = prior
	case guard.IsUnknown:
		if q.doubted != prior.RunID { // its renewal may have overtaken this answer
			q.doubted = prior.RunID
			return answer, nil, false
		}
		answer.Prior = prior
		if row.priorOutcome != nil && *row.priorOutcome == string(guard.OutcomeRunning) {
			q.markUnknown(ctx, prior.RunID)
		}
	default:
		if held == nil {
			return q.unexplained(ctx, row, prior, answer)
		}
		answer.Verdict, answer.Held = guard.Held, held
	}
	return answer, nil, true
}

// unexplained is what an acquire leads to that took nothing although nothing stands
// in its way, or not any more: mostly to another try.
func (q *asking) unexplained(ctx context.Context, row *row, prior *guard.Run, answer guard.Answer) (_ guard.Answer, err error, decided bool) {
	switch {
	case q.half:
		q.last = errors.New("the lease can be taken, the rows in lockrun.run and lockrun.attempt can't: see the triggers, rules and policies of these tables")
	case q.tooLate(answer.At):
		answer.Verdict, answer.Meant = guard.WrongDate, answer.At.Add(-q.elapsed)
		return answer, nil, true
	default:
		if err := q.spoilt(row, prior); err != nil {
			return guard.Answer{}, q.refused(err), true
		}
		q.last = errors.New("the lease changes hands faster than it can be taken")
	}
	q.sleep(ctx)
	return answer, nil, false
}

// spoilt says what is wrong with rows that let nobody in and belong to nobody.
// Whoever is overtaken by others sees another lease each time.
func (q *asking) spoilt(row *row, prior *guard.Run) error {
	fault := &locks.SetupError{What: q.cfg.what()}
	if prior != nil && !slices.Contains([]guard.State{guard.Running, guard.Succeeded, guard.Failed}, prior.State) {
		fault.Err = fmt.Errorf("the row of %q and %s in lockrun.run has the state %q, which lockrun never wrote", q.r.Name, q.r.Date, prior.State)
		fault.Next = "find out who did, and decide the date with \"lockrun resolve\""
		return fault
	}
	free := fmt.Sprint(value(row.seen.run), value(row.seen.token), value(row.seen.until))
	if free != q.free {
		q.free, q.sights = free, 0
	}
	if q.sights++; q.sights < 3 {
		return nil
	}
	fault.Err = fmt.Errorf("the row of %q in lockrun.lease is free, and can't be written", q.r.Name)
	fault.Next = "see the triggers, rules and policies of that table"
	return fault
}

// markUnknown records that nobody knows how the attempt ended. If it fails, the
// next one to meet the row does it.
func (q *asking) markUnknown(ctx context.Context, runID string) {
	_ = q.once(ctx, func(b *pgx.Batch) {
		b.Queue(`
UPDATE lockrun.attempt SET outcome = 'unknown'
 WHERE run_id = @run_id::uuid AND outcome = 'running'
   AND EXISTS (SELECT 1 FROM lockrun.run WHERE run_id = @run_id::uuid AND name = @name::text AND run_date = @date::text AND state = 'running')
   AND NOT EXISTS (SELECT 1 FROM lockrun.lease WHERE run_id = @run_id::uuid AND expires_at > clock_timestamp())`,
			pgx.StrictNamedArgs{"run_id": runID, "name": q.r.Name, "date": q.r.Date})
	})
}

// sleep pauses before the next try, or until ctx ends.
func (q *asking) sleep(ctx context.Context) {
	_ = locks.Sleep(ctx, q.pause.NextBackOff())
}

// ending tells whether ctx is over, or so nearly that a dialer which counts for
// itself has given up already.
func ending(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) < 5*time.Millisecond
}

// refused is a permanent error; with an unanswered try before it, that is what
// matters more.
func (q *asking) refused(err error) error {
	err = q.cfg.fault(err, q.lastAfter)
	var setup *locks.SetupError
	if q.unanswered && errors.As(err, &setup) {
		return &locks.UnavailableError{What: setup.What, Err: setup.Err, Next: setup.Next, Taken: true}
	}
	return err
}

// gaveUp is the error at ctx's end: the last thing that really happened, and
// ctx's own error to be matched.
func (q *asking) gaveUp(ctx context.Context) error {
	if q.last == nil {
		q.last = ctx.Err()
	}
	away := &locks.UnavailableError{}
	if !errors.As(q.cfg.fault(q.last, q.lastAfter), &away) {
		away = &locks.UnavailableError{What: q.cfg.what(), Err: q.last}
	}
	return &locks.UnavailableError{
		What: away.What, Next: away.Next, Taken: q.unanswered,
		Err: &reason{away.Err.Error(), errors.Join(away.Err, ctx.Err())},
	}
}
