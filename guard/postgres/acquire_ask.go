package postgres

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"lockrun/guard"
)

//go:embed acquire.sql
var acquireSQL string

//go:embed refusal.sql
var refusalSQL string

// ask sends the acquire once. Without an error and without a grant, nothing was
// taken.
func (q *asking) ask(ctx context.Context) (granted *guard.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.timing.Call)
	defer cancel()
	if err := q.connect(ctx); err != nil { // before the clock is read
		return nil, err
	}
	args := requestArgs(q.r)
	args["schema"], args["open"], args["ttl"] = guard.SchemaVersion, mayOpen(q.r.Rerun), q.r.TTL
	q.elapsed = q.r.Since()
	args["from"], args["before"] = q.meant(q.elapsed)
	err = q.transact(ctx, q.timing.Call/2, func(b *pgx.Batch) {
		b.Queue("/* "+q.mark+" */ "+acquireSQL, pgx.StrictNamedArgs(args)).Query(func(rows pgx.Rows) (err error) {
			granted, err = readGrant(rows)
			return err
		})
		if q.r.Rerun.Unknown && q.r.Date != "" {
			b.Queue(forgotten, pgx.StrictNamedArgs{"name": q.r.Name, "date": q.r.Date, "run_id": q.r.RunID})
		}
	})
	if err != nil {
		return nil, err
	}
	return granted, nil
}

// forgotten marks the attempts that are run again and that never said how they
// ended. Who holds the lease knows that no other one is under way.
const forgotten = `
UPDATE lockrun.attempt SET outcome = 'unknown'
 WHERE name = @name::text AND run_date = @date::text AND outcome = 'running' AND NOT run_id = @run_id::uuid
   AND EXISTS (SELECT 1 FROM lockrun.lease WHERE name = @name::text AND run_id = @run_id::uuid AND expires_at > clock_timestamp())`

// mayOpen are the states of a guard row that --rerun opens. A running one whose
// lease is over is what lockrun calls unknown.
func mayOpen(r guard.Rerun) []string {
	words := r.Words()
	for i, word := range words {
		if word == "unknown" {
			words[i] = string(guard.Running)
		}
	}
	return words
}

// meant is the time within which the server has to answer for the date to be the
// one that was meant, elapsed after lockrun was started.
func (q *asking) meant(elapsed time.Duration) (from, before pgtype.Timestamptz) {
	if q.r.Before.IsZero() || q.copied {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true},
			pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: q.r.From.Add(elapsed), Valid: true}, pgtype.Timestamptz{Time: q.r.Before.Add(elapsed), Valid: true}
}

// tooLate tells whether the last acquire may have found the date to be over, by a
// clock that says at when it is asked why. The start of lockrun is where that clock
// was less the time since, and the longer an acquire took to be looked at, the
// later it seems: a quicker question can find the date still right.
func (q *asking) tooLate(at time.Time) bool {
	return !q.r.Before.IsZero() && !q.copied && !at.Before(q.r.Before.Add(q.elapsed))
}

// askWhy asks what stood in the way of an acquire that took nothing.
func (q *asking) askWhy(ctx context.Context) (*row, error) {
	ctx, cancel := context.WithTimeout(ctx, q.timing.Call)
	defer cancel()
	if err := q.connect(ctx); err != nil { // before the clock is read
		return nil, err
	}
	answer := row{elapsed: q.r.Since()}
	args := pgx.StrictNamedArgs{"name": q.r.Name, "date": text(q.r.Date), "run_id": q.r.RunID}
	args["from"], args["before"] = q.meant(answer.elapsed)
	err := q.transact(ctx, q.timing.Call/2, func(b *pgx.Batch) {
		b.Queue(refusalSQL, args).QueryRow(answer.scan)
	})
	return &answer, err
}
