package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks"
)

func TestLedger(t *testing.T) {
	guardtest.ExerciseLedger(t, func(t *testing.T) guardtest.LedgerHarness { return &harness{newDatabase(t)} })
}

func (h *harness) Ledger(t *testing.T) guard.Ledger { return NewLedger(config(t, h.d.dsn)) }

func (h *harness) Shift(t *testing.T, name string, renewed, expires time.Duration) {
	t.Helper()
	h.exec(t, "UPDATE lockrun.lease SET renewed_at = clock_timestamp() + $2::bigint * interval '1 microsecond', expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond' WHERE name = $1",
		name, renewed.Microseconds(), expires.Microseconds())
}

func (h *harness) Audits(t *testing.T, name string) []guardtest.Audit {
	t.Helper()
	return all(t, h.query(t, `SELECT at, actor, action, name, coalesce(run_date, ''), reason, coalesce(before::text, ''), coalesce(after::text, '')
  FROM lockrun.audit WHERE name = $1 ORDER BY at`, name), func(row pgx.CollectableRow) (guardtest.Audit, error) {
		var a guardtest.Audit
		err := row.Scan(&a.At, &a.Actor, &a.Action, &a.Name, &a.Date, &a.Reason, &a.Before, &a.After)
		return a, err
	})
}

// Only a change whose commit was sent may have been done.
func TestChangeUnanswered(t *testing.T) {
	r := &guard.Resolution{Name: "eod", Date: "2026-01-15", As: guard.AsFailed, Reason: "why", Actor: "me@here"}
	gone := NewLedger(config(t, "postgres://127.0.0.1:1/x"))
	defer gone.Close()
	_, _, err := gone.Resolve(bounded(t, 20*time.Second), r)
	wantUnavailable(t, err, false, "connection refused")
	var away *locks.UnavailableError
	if errors.As(err, &away) && away.Next != "" {
		t.Errorf("next step %q", away.Next)
	}
	nowhere := NewLedger(config(t, "postgres://nowhere.invalid/x"))
	defer nowhere.Close()
	_, _, err = nowhere.Resolve(bounded(t, 20*time.Second), r)
	wantUnavailable(t, err, false, "nowhere.invalid")
	if strings.Count(err.Error(), "lookup nowhere.invalid") > 1 {
		t.Errorf("it is said twice: %v", err)
	}
	d := newDatabase(t)
	past := request(r.Name, r.Date)
	granted(t, store(t, d.dsn), past)
	d.expire(r.Name)
	for mark, sent := range map[string]bool{"INSERT INTO lockrun.audit": false, "commit\x00": true} {
		p, dsn := throughProxy(t, d.dsn)
		p.mark = []byte(mark)
		p.next(cut, 1)
		l := NewLedger(config(t, dsn))
		defer l.Close()
		_, _, err = l.Resolve(bounded(t, 20*time.Second), r)
		wantUnavailable(t, err, sent)
		if errors.As(err, &away) && (away.Next != "") != sent {
			t.Errorf("%q: next step %q", mark, away.Next)
		}
	}
}

// The ledger needs no more than a run does, and says who it was to the database.
func TestLedgerAsRunner(t *testing.T) {
	d := newDatabase(t)
	role := d.text("SELECT 'runner_' || current_database()")
	d.exec(SchemaSQL())
	d.exec("CREATE ROLE " + role + " LOGIN; GRANT lockrun_runner TO " + role)
	l := NewLedger(config(t, asRole(d.dsn, role)))
	defer l.Close()
	r := request("eod", "2026-01-15")
	granted(t, store(t, d.dsn), r)
	d.expire(r.Name)
	ctx := bounded(t, 20*time.Second)
	if rows, err := l.Latest(ctx, ""); err != nil || len(rows.Runs) != 1 {
		t.Fatal(rows, err)
	}
	if _, _, err := l.Resolve(ctx, &guard.Resolution{Name: "eod", Date: r.Date, As: guard.AsRerun, Reason: "why\x00 not\xff", Actor: "me@here"}); err != nil {
		t.Fatal(err)
	}
	if got := d.text("SELECT actor FROM lockrun.audit"); got != "me@here (database role "+role+")" {
		t.Errorf("actor %q", got)
	}
	if got := d.text("SELECT at > clock_timestamp() - interval '1 minute' AND at <= clock_timestamp() FROM lockrun.audit"); got != "true" {
		t.Errorf("the audit's time is off")
	}
	d.exec("UPDATE lockrun.lease SET expires_at = 'infinity'")
	if _, audit, err := l.Release(ctx, &guard.Eviction{Name: "eod", Reason: "absurd", Actor: "me"}); audit == nil || err != nil {
		t.Fatal(audit, err)
	}
}

func TestLedgerEditedByHand(t *testing.T) {
	d := newDatabase(t)
	r := request("eod", "2026-01-15")
	granted(t, store(t, d.dsn), r)
	d.exec(`UPDATE lockrun.lease SET expires_at = 'infinity', holder = '', pid = -1;
UPDATE lockrun.attempt SET started_at = '4000-01-01 BC', command = ARRAY[['a', NULL], ['b', 'c']], attempt = -2;
UPDATE lockrun.run SET started_at = 'infinity', exit_code = 99999, reason = E'\x1b[2J'`)
	l := NewLedger(config(t, d.dsn))
	defer l.Close()
	ctx := bounded(t, 20*time.Second)
	rows, err := l.Latest(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	list := guard.Overview(rows)
	if len(list) != 1 || !list[0].Held || !strings.Contains(strings.Join(list[0].Notes, "; "), "absurdly long") || len(rows.Attempts[0].Command) != 4 {
		t.Fatalf("overview %+v, rows %+v", list, rows)
	}
	if _, err := l.All(ctx, "eod"); err != nil {
		t.Fatal(err)
	}
	d.exec("DELETE FROM lockrun.attempt")
	if rows, err = l.Latest(ctx, ""); err != nil || !strings.Contains(strings.Join(guard.Overview(rows)[0].Notes, "; "), "no attempt") {
		t.Fatal(rows, err)
	}
	d.exec("DROP TABLE lockrun.run")
	_, err = l.Latest(ctx, "")
	wantSetup(t, err, "lockrun init", "lockrun.run")
}

// An open fence holds up the next holder, not the operator.
func TestReleaseUnderAnOpenFence(t *testing.T) {
	d := newDatabase(t)
	r := request("eod", "")
	granted(t, store(t, d.dsn), r)
	tx, err := d.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT lockrun.fence($1)", r.RunID); err != nil {
		t.Fatal(err)
	}
	l := NewLedger(config(t, d.dsn))
	defer l.Close()
	if _, audit, err := l.Release(bounded(t, 4*time.Second), &guard.Eviction{Name: "eod", Reason: "hung", Actor: "me", Force: true}); audit == nil || err != nil {
		t.Fatal(audit, err)
	}
}
