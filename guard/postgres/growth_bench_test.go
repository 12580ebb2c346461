package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/guard/guardtest"
)

// number is the one number that a query gives.
func (d *database) number(sql string) (n int64) {
	d.Helper()
	if err := d.conn.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		d.Fatal(err)
	}
	return n
}

// age fills the record with runs of the past, of a hundred names.
func (d *database) age(rows int) {
	d.Helper()
	d.exec(`INSERT INTO lockrun.attempt (run_id, name, run_date, attempt, token, holder, host, pid, os_user, command, started_at, ended_at, outcome, exit_code, version)
		SELECT gen_random_uuid(), 'old-' || n % 100, (DATE '1900-01-01' + n / 100)::text, 1, n + 1, 'host', 'host', 7, 'batch', '{job}', now(), now(), 'succeeded', 0, 'test'
		FROM generate_series(0, $1 - 1) n`, rows)
	d.exec(`INSERT INTO lockrun.run (name, run_date, state, run_id, attempt, started_at, ended_at, exit_code)
		SELECT name, run_date, 'succeeded', run_id, 1, now(), now(), 0 FROM lockrun.attempt`)
	d.exec(`ANALYZE`)
}

// BenchmarkGrowth is what a start and a renewal cost when the record is long.
func BenchmarkGrowth(b *testing.B) {
	for _, rows := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			d := newDatabase(b)
			d.age(rows)
			s := store(b, d.dsn)
			ctx := context.Background()
			b.Run("acquire", func(b *testing.B) {
				var end *guard.End
				for n := 0; b.Loop(); n++ {
					if end != nil {
						b.StopTimer()
						if err := s.Finish(ctx, end); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					r := guardtest.BenchRequest(n, testTTL)
					if a, err := s.Acquire(ctx, r); err != nil || a.Verdict != guard.Granted {
						b.Fatalf("%+v, %v", a, err)
					}
					end = &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeSucceeded, ExitCode: new(int)}
				}
			})
			b.Run("renew", func(b *testing.B) {
				r := guardtest.BenchRequest(0, testTTL)
				r.Name, r.TTL = "renewed", time.Hour
				if a, err := s.Acquire(ctx, r); err != nil || a.Verdict != guard.Granted {
					b.Fatalf("%+v, %v", a, err)
				}
				for b.Loop() {
					if err := s.Renew(ctx, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkThousandJobs renews the leases of a thousand names in turn, over 50
// sessions, and says how large the table of leases has become and how many of
// the updates were made in place (HOT). For the bloat of 100,000 renewals:
// -benchtime 100000x.
func BenchmarkThousandJobs(b *testing.B) {
	const jobs, sessions = 1_000, 50
	d := newDatabase(b)
	requests := make([]*guard.Request, jobs)
	d.exec(`INSERT INTO lockrun.lease (name, run_id, token, holder, pid, acquired_at, renewed_at, expires_at)
		SELECT 'job-' || n, gen_random_uuid(), 1, 'host', 7, now(), now(), now() + interval '1 hour' FROM generate_series(0, $1 - 1) n`, jobs)
	rows, err := d.conn.Query(context.Background(), `SELECT name, run_id FROM lockrun.lease`)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	var name string
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error {
		requests[n] = guardtest.BenchRequest(n, testTTL)
		requests[n].Name, requests[n].RunID, requests[n].TTL = name, id.String(), time.Hour
		n++
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	before := d.number(`SELECT pg_table_size('lockrun.lease')`)

	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range sessions {
		s := store(b, d.dsn)
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := s.Renew(context.Background(), requests[i%jobs]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renewals/s")
	b.ReportMetric(float64(before)/1024, "KiB-before")
	b.ReportMetric(float64(d.number(`SELECT pg_table_size('lockrun.lease')`))/1024, "KiB-after")
	d.exec(`SELECT pg_stat_force_next_flush()`)
	if hot := d.number(`SELECT coalesce(sum(n_tup_hot_upd * 100 / nullif(n_tup_upd, 0)), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = 'lockrun' AND relname = 'lease'`); b.N > 10*jobs {
		b.ReportMetric(float64(hot), "%HOT")
	}
}
