package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks/locktest"
)

func TestContract(t *testing.T) {
	guardtest.Exercise(t, func(t *testing.T) guardtest.Harness { return &harness{newDatabase(t)} })
}

func TestContractThroughPgBouncer(t *testing.T) {
	pg := locktest.StartPostgres(t)
	d := initDatabase(t, pg.DSN("postgres"))
	d.dsn = locktest.StartPgBouncer(t, pg, "postgres", "transaction", 3).DSN()
	guardtest.Exercise(t, func(*testing.T) guardtest.Harness { return &harness{d} })
}

// harness reads the rows as the contract names them.
type harness struct{ d *database }

func (h *harness) Store(t *testing.T) guard.Store { return store(t, h.d.dsn) }

func (h *harness) Expire(t *testing.T, name string) {
	t.Helper()
	h.exec(t, "UPDATE lockrun.lease SET expires_at = clock_timestamp() - interval '1 second' WHERE name = $1", name)
}

func (h *harness) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := h.d.conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) query(t *testing.T, sql string, args ...any) pgx.Rows {
	t.Helper()
	rows, err := h.d.conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func (h *harness) Lease(t *testing.T, name string) *guardtest.Lease {
	t.Helper()
	return one(t, h.query(t, `SELECT name, run_id::text, token, holder, pid, acquired_at, renewed_at, expires_at
  FROM lockrun.lease WHERE name = $1`, name), func(row pgx.CollectableRow) (*guardtest.Lease, error) {
		var l guardtest.Lease
		err := row.Scan(&l.Name, &l.RunID, &l.Token, &l.Holder, &l.PID, &l.AcquiredAt, &l.RenewedAt, &l.ExpiresAt)
		return &l, err
	})
}

func (h *harness) Run(t *testing.T, name, date string) *guard.Run {
	t.Helper()
	return one(t, h.query(t, `SELECT name, run_date, state, run_id::text, attempt, started_at, coalesce(ended_at, '0001-01-01 00:00+00'),
       exit_code, coalesce(signal, ''), coalesce(reason, '') FROM lockrun.run WHERE name = $1 AND run_date = $2`, name, date),
		func(row pgx.CollectableRow) (*guard.Run, error) {
			var r guard.Run
			err := row.Scan(&r.Name, &r.Date, &r.State, &r.RunID, &r.Attempt, &r.StartedAt, &r.EndedAt, &r.ExitCode, &r.Signal, &r.Reason)
			return &r, err
		})
}

func (h *harness) Attempts(t *testing.T, name string) []guardtest.Attempt {
	t.Helper()
	return all(t, h.query(t, `SELECT run_id::text, name, coalesce(run_date, ''), attempt, token, holder, host, pid, os_user, command, started_at,
       coalesce(ended_at, '0001-01-01 00:00+00'), outcome, exit_code, coalesce(signal, ''), coalesce(reason, ''), version
  FROM lockrun.attempt WHERE name = $1 ORDER BY started_at`, name), func(row pgx.CollectableRow) (guardtest.Attempt, error) {
		var a guardtest.Attempt
		err := row.Scan(&a.RunID, &a.Name, &a.Date, &a.Attempt, &a.Token, &a.Holder, &a.Host, &a.PID, &a.OSUser, &a.Command, &a.StartedAt,
			&a.EndedAt, &a.Outcome, &a.ExitCode, &a.Signal, &a.Reason, &a.Version)
		return a, err
	})
}

func all[T any](t *testing.T, rows pgx.Rows, scan pgx.RowToFunc[T]) []T {
	t.Helper()
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// one returns nil for no row.
func one[T any](t *testing.T, rows pgx.Rows, scan pgx.RowToFunc[*T]) *T {
	t.Helper()
	list := all(t, rows, scan)
	if len(list) == 0 {
		return nil
	}
	return list[0]
}
