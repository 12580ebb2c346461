package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
)

// fenceIn passes the fence in a transaction, or not.
func fenceIn(ctx context.Context, tx pgx.Tx, runID string) (token int64, err error) {
	err = tx.QueryRow(ctx, "SELECT lockrun.fence($1)", runID).Scan(&token)
	return token, err
}

// Whoever takes over an expired lease waits until the last transaction behind
// its fence has ended, and no further one gets in meanwhile: short transactions
// that overlap can't keep it waiting for ever.
func TestTakeOverWaitsForTheFence(t *testing.T) {
	for _, level := range levels {
		for end, finish := range map[string]func(pgx.Tx, context.Context) error{"commit": pgx.Tx.Commit, "rollback": pgx.Tx.Rollback} {
			t.Run(string(level)+"/"+end, func(t *testing.T) {
				t.Parallel()
				d := newDatabase(t)
				d.exec("CREATE TABLE posting (n int)")
				r, next := request("eod", "2026-01-15"), request("eod", "2026-01-16")
				first := granted(t, store(t, d.dsn), r)
				ctx := bounded(t, time.Minute)
				tx := begin(t, d.dsn, level, "SELECT 1")
				if _, err := fenceIn(ctx, tx, r.RunID); err != nil {
					t.Fatal(err)
				}
				d.expire("eod")

				patient := New(config(t, d.dsn), timing(t, time.Minute)) // waits for a row for seconds
				t.Cleanup(patient.Close)
				type result struct {
					guard.Answer
					err error
				}
				taken := make(chan result, 1)
				go func() {
					a, err := patient.Acquire(ctx, next)
					taken <- result{a, err}
				}()
				eventually(t, "the take-over waits for the job", func() bool {
					return d.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND $1::int = ANY (pg_blocking_pids(pid))", pidOf(tx)) == "1"
				})
				_, err := fenceIn(ctx, begin(t, d.dsn, level, "SELECT 1"), r.RunID)
				wantState(t, err, "LR002")
				if _, err := tx.Exec(ctx, "INSERT INTO posting VALUES (1)"); err != nil {
					t.Fatal(err)
				}
				ended := time.Now()
				if err := finish(tx, ctx); err != nil {
					t.Fatal(err)
				}
				a := <-taken
				if a.err != nil || a.Verdict != guard.Granted || a.Token <= first.Token {
					t.Fatalf("take-over after the job's end: %+v %v, want it granted with a token after %d", a.Answer, a.err, first.Token)
				}
				t.Logf("granted %v after the job's end", time.Since(ended))
			})
		}
	}
}

// What a stale run wrote before it was told so goes with its transaction.
func TestStaleRunCommitsNothing(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			d := newDatabase(t)
			d.exec("CREATE TABLE posting (n int)")
			s := store(t, d.dsn)
			r := request("eod", "2026-01-15")
			granted(t, s, r)
			ctx := bounded(t, time.Minute)
			for _, c := range []struct {
				what   string
				happen func()
				state  string
			}{
				{"ended", func() { finish(t, s, r, guard.OutcomeFailed) }, "LR002"},
				{"taken over", func() { granted(t, s, again(r, guard.Rerun{Failed: true})) }, "LR001"},
				{"taken over and over", func() { d.expire("eod"); granted(t, s, request("eod", "2026-01-16")) }, "LR001"},
			} {
				c.happen()
				tx := begin(t, d.dsn, level, "INSERT INTO posting VALUES (1)")
				_, err := fenceIn(ctx, tx, r.RunID)
				wantState(t, err, c.state)
				if err := tx.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
					t.Errorf("%s: commit behind a refused fence: %v, want a rollback", c.what, err)
				}
				if n := d.text("SELECT count(*) FROM posting"); n != "0" {
					t.Errorf("%s: %s rows of the stale run", c.what, n)
				}
			}
		})
	}
}

// The fence rests on the kind of its row lock and on which columns are keys. With
// either changed, it holds up nobody, or it holds up the renewals too.
func TestFenceRestsOn(t *testing.T) {
	const keyShare = "FOR KEY SHARE"
	replace := func(lock string) func(*database) {
		return func(d *database) {
			sql := d.text("SELECT pg_get_functiondef('lockrun.fence'::regproc)")
			if strings.Count(sql, keyShare) != 1 {
				d.Fatalf("the fence is %s", sql)
			}
			d.exec(strings.Replace(sql, keyShare, lock, 1))
		}
	}
	for _, c := range []struct {
		name          string
		change        func(*database)
		renews, waits bool
	}{
		{"as_it_is", func(*database) {}, true, true},
		{"no_key", func(d *database) { d.exec("ALTER TABLE lockrun.lease DROP CONSTRAINT lease_run_id_name_key") }, true, false},
		{"no_lock", replace(""), true, false},
		{"share_lock", replace("FOR SHARE"), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			c.change(d)
			s := store(t, d.dsn)
			r := request("eod", "2026-01-15")
			if !c.renews {
				r.TTL = testTTL / 3 // nothing but time ends it then
			}
			granted(t, s, r)
			ctx := bounded(t, time.Minute)
			tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1")
			if _, err := fenceIn(ctx, tx, r.RunID); err != nil {
				t.Fatal(err)
			}
			if err := s.Renew(ctx, r); (err == nil) != c.renews {
				t.Errorf("renewal under an open fence: %v, want it to go on: %v", err, c.renews)
			}
			if c.renews {
				d.expire("eod")
			} else { // the lock keeps everybody off the row
				eventually(t, "the lease expires", func() bool { return !d.live("eod") })
			}
			a := acquire(t, store(t, d.dsn), request("eod", "2026-01-16"))
			if waited := a.Held != nil && a.Held.Blocker == pidOf(tx); waited != c.waits || !waited && a.Verdict != guard.Granted {
				t.Errorf("take-over under an open fence: %+v %+v, want it to wait: %v", a, a.Held, c.waits)
			}
		})
	}
}

// BenchmarkRenew measures renewals without a fence, and under one that is open at
// each isolation level.
func BenchmarkRenew(b *testing.B) {
	for _, level := range append([]pgx.TxIsoLevel{"no fence"}, levels...) {
		b.Run(strings.ReplaceAll(string(level), " ", "_"), func(b *testing.B) {
			d := newDatabase(b)
			s := store(b, d.dsn)
			r := request("eod", "2026-01-15")
			granted(b, s, r)
			ctx := bounded(b, 10*time.Minute)
			if level != "no fence" {
				if _, err := fenceIn(ctx, begin(b, d.dsn, level, "SELECT 1"), r.RunID); err != nil {
					b.Fatal(err)
				}
			}
			var worst time.Duration
			for b.Loop() {
				started := time.Now()
				if err := s.Renew(ctx, r); err != nil {
					b.Fatal(err)
				}
				worst = max(worst, time.Since(started))
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		})
	}
}
