package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks"
)

// findBlocker follows the chain from the session whose statement carries a mark
// to the one that waits for nobody. The statement's text is what finds it: the
// process id that a pooler tells its client is not a server's.
const findBlocker = `
WITH RECURSIVE chain (pid) AS (
  SELECT unnest(pg_blocking_pids(a.pid)) FROM pg_stat_activity a
   WHERE a.pid <> pg_backend_pid() AND position($1::text IN a.query) > 0 AND a.wait_event_type = 'Lock'
  UNION
  SELECT unnest(pg_blocking_pids(c.pid)) FROM chain c
)
SELECT pid FROM chain WHERE pid > 0 AND cardinality(pg_blocking_pids(pid)) = 0 LIMIT 1`

var seenLease = `
SELECT o.run_id::text, o.holder, o.pid, o.token, ` + micros("o.acquired_at") + `, ` + micros("o.expires_at") + `,
       o.expires_at > clock_timestamp(), o.expires_at > o.renewed_at + interval '7 days', h.ended_at IS NOT NULL, ` + micros("clock_timestamp()") + `
  FROM (SELECT 1) one LEFT JOIN lockrun.lease o ON o.name = $1::text LEFT JOIN lockrun.attempt h ON h.run_id = o.run_id`

// askWatched repeats an ask that waited for a locked row in vain, while a second
// connection looks who keeps it: afterwards nothing could tell that any more.
// If it waits in vain again, the answer is held.
func (q *asking) askWatched(ctx context.Context) (granted, held *guard.Answer, err error) {
	watch, stop := context.WithTimeout(ctx, 2*q.timing.Call)
	defer stop()
	blocker := make(chan int, 1)
	go func() { blocker <- q.watch(watch) }()
	granted, err = q.ask(ctx)
	if err == nil || classify(err) != lockWait {
		stop()
		<-blocker
		return granted, nil, err
	}
	var seen lease
	var at int64
	err = q.once(ctx, func(b *pgx.Batch) {
		b.Queue(seenLease, q.r.Name).QueryRow(func(row pgx.Row) error { return row.Scan(append(seen.columns(), &at)...) })
	})
	stop()
	pid := <-blocker
	if err != nil {
		return nil, nil, err
	}
	return nil, &guard.Answer{
		Verdict: guard.Held, At: time.UnixMicro(at),
		Held: &locks.HeldError{Tier: "lease", By: seen.by(), Blocker: pid},
	}, nil
}

// watch returns the process id of the session that blocks this one, 0 if it
// can't be seen before ctx ends.
func (q *asking) watch(ctx context.Context) int {
	conn, err := q.cfg.dial(ctx, nil)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close(ctx) }()
	again := time.NewTicker(max(q.timing.Call/50, 5*time.Millisecond))
	defer again.Stop()
	for {
		pid := 0
		err := askOnce(ctx, conn, func(rows pgx.Rows) (err error) {
			pid, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
			return err
		}, findBlocker, q.mark)
		if err == nil {
			return pid
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return 0
		}
	}
}
