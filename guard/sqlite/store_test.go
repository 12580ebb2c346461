package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks"
)

func TestStore(t *testing.T) {
	guardtest.Exercise(t, func(t *testing.T) guardtest.Harness {
		return newHarness(t, filepath.Join(t.TempDir(), "state #1?%41"))
	})
}

func timing(tb testing.TB) locks.Timing {
	tb.Helper()
	timing, err := locks.NewTiming(time.Minute, -1)
	if err != nil {
		tb.Fatal(err)
	}
	return timing
}

// harness reads and changes rows through a store's own connection.
type harness struct {
	dir   string
	store *Store
}

func newHarness(t *testing.T, dir string) *harness {
	t.Helper()
	h := &harness{dir, New(dir, timing(t))}
	t.Cleanup(h.store.Close)
	return h
}

func (h *harness) Store(t *testing.T) guard.Store { return New(h.dir, timing(t)) }

func (h *harness) in(t *testing.T, do func(t *transaction) error) {
	t.Helper()
	if err := h.store.transact(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) Expire(t *testing.T, name string) {
	t.Helper()
	h.in(t, func(tx *transaction) error {
		_, err := tx.exec(`UPDATE lease SET expires_at = ? WHERE name = ?`, text(tx.now.Add(-time.Millisecond)), name)
		return err
	})
}

func (h *harness) Lease(t *testing.T, name string) (row *guardtest.Lease) {
	t.Helper()
	h.in(t, func(tx *transaction) error {
		l, since, renewed, until := guardtest.Lease{Name: name}, instant{}, instant{}, instant{}
		err := tx.row(`SELECT run_id, token, holder, pid, acquired_at, renewed_at, expires_at FROM lease WHERE name = ?`, name).
			Scan(&l.RunID, &l.Token, &l.Holder, &l.PID, &since, &renewed, &until)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		l.AcquiredAt, l.RenewedAt, l.ExpiresAt = since.Time, renewed.Time, until.Time
		row = &l
		return err
	})
	return row
}

func (h *harness) Run(t *testing.T, name, date string) (row *guard.Run) {
	t.Helper()
	h.in(t, func(tx *transaction) (err error) {
		row, err = tx.run(name, date)
		return err
	})
	return row
}

func (h *harness) Attempts(t *testing.T, name string) (list []guardtest.Attempt) {
	t.Helper()
	h.in(t, func(tx *transaction) (err error) {
		list, err = collect(tx, func(columns row) (guardtest.Attempt, error) {
			var a guardtest.Attempt
			var command string
			var started, ended instant
			err := errors.Join(columns.Scan(&a.RunID, &a.Name, &a.Date, &a.Attempt, &a.Token, &a.Holder, &a.Host, &a.PID, &a.OSUser, &command,
				&started, &ended, &a.Outcome, &a.ExitCode, &a.Signal, &a.Reason, &a.Version), json.Unmarshal([]byte(command), &a.Command))
			a.StartedAt, a.EndedAt = started.Time, ended.Time
			return a, err
		}, `
			SELECT run_id, name, coalesce(run_date, ''), attempt, token, holder, host, pid, os_user, command, started_at, ended_at,
			       outcome, exit_code, coalesce(signal, ''), coalesce(reason, ''), version
			  FROM attempt WHERE name = ? ORDER BY rowid`, name)
		return err
	})
	return list
}
