package sqlite

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks"
)

func TestLedger(t *testing.T) {
	guardtest.ExerciseLedger(t, func(t *testing.T) guardtest.LedgerHarness {
		h := newHarness(t, filepath.Join(t.TempDir(), "state"))
		h.in(t, func(*transaction) error { return nil })
		return h
	})
}

func (h *harness) Ledger(*testing.T) guard.Ledger { return NewLedger(h.dir) }

func (h *harness) Shift(t *testing.T, name string, renewed, expires time.Duration) {
	t.Helper()
	h.exec(t, `UPDATE lease SET renewed_at = ?, expires_at = ? WHERE name = ?`, text(time.Now().Add(renewed)), text(time.Now().Add(expires)), name)
}

func (h *harness) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	h.in(t, func(tx *transaction) error {
		_, err := tx.exec(query, args...)
		return err
	})
}

func (h *harness) Audits(t *testing.T, name string) (list []guardtest.Audit) {
	t.Helper()
	h.in(t, func(tx *transaction) (err error) {
		list, err = collect(tx, scanAudit, selectAudit+` WHERE name = ? ORDER BY rowid`, name)
		return err
	})
	return list
}

func TestLedgerMakesNoDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	_, err := NewLedger(dir).Latest(t.Context(), "")
	wantSetup(t, err, "no such file", "lockrun init --local")
}

func wantSetup(t *testing.T, err error, says, next string) {
	t.Helper()
	var setup *locks.SetupError
	if !errors.As(err, &setup) || !strings.Contains(setup.Error(), says) || !strings.Contains(setup.Next, next) {
		t.Fatalf("got %v, want a SetupError that says %q, then %q", err, says, next)
	}
}

// What somebody wrote by hand is shown, not believed, and can be put right.
func TestLedgerEditedByHand(t *testing.T) {
	h := newHarness(t, filepath.Join(t.TempDir(), "state"))
	r := &guard.Request{Name: "eod", Date: "2026-01-15", RunID: "11111111-1111-4111-8111-111111111111", Command: []string{"job"}, TTL: time.Minute}
	if _, err := h.store.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	h.exec(t, `UPDATE lease SET expires_at = 'next week', holder = ''`)
	h.exec(t, `UPDATE attempt SET command = 'not json', started_at = '', holder = char(27) || '[31m'`)
	h.exec(t, `UPDATE run SET started_at = 'x', attempt = -5`)
	l := NewLedger(h.dir)
	defer l.Close()
	rows, err := l.Latest(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	list := guard.Overview(rows)
	if len(list) != 1 || list[0].State != guard.StateUnknown || list[0].Held || !strings.Contains(strings.Join(list[0].Notes, "; "), "can't be read") ||
		!strings.Contains(strings.Join(list[0].Notes, "; "), "no name") || rows.Attempts[0].Command[0] != "not json" {
		t.Fatalf("overview %+v, rows %+v", list, rows)
	}
	if _, audit, err := l.Release(t.Context(), &guard.Eviction{Name: "eod", Reason: "odd", Actor: "me"}); audit == nil || err != nil {
		t.Fatal(audit, err)
	}
	if _, _, err := l.Resolve(t.Context(), &guard.Resolution{Name: "eod", Date: "2026-01-15", As: guard.AsRerun, Reason: "odd", Actor: "me"}); err != nil {
		t.Fatal(err)
	}
	r.RunID = "22222222-2222-4222-8222-222222222222"
	if a, err := h.store.Acquire(t.Context(), r); err != nil || a.Verdict != guard.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
}

func TestUpgrade(t *testing.T) {
	next := guard.ReadSchema(fstest.MapFS{
		"schema.sql":   {Data: []byte(theSchema[0])},
		"schema_2.sql": {Data: []byte("ALTER TABLE attempt ADD COLUMN queue TEXT;\nCREATE TABLE two (n INTEGER) STRICT;")},
	})
	if theSchema.Version() != guard.SchemaVersion || next.Version() != 2 {
		t.Fatalf("versions %d, %d", theSchema.Version(), next.Version())
	}
	dir := filepath.Join(t.TempDir(), "state")
	if change, err := Init(t.Context(), dir); change != guard.Created || err != nil {
		t.Fatal(change, err)
	}
	newer := New(dir, timing(t))
	newer.schema = next
	_, err := newer.Acquire(t.Context(), &guard.Request{Name: "eod", RunID: "1", TTL: time.Minute})
	newer.Close()
	wantSetup(t, err, "version 1", "lockrun init --local")
	for _, want := range []guard.Change{guard.Upgraded, guard.Unchanged} {
		if change, err := initWith(t.Context(), dir, next); change != want || err != nil {
			t.Fatal(change, err)
		}
	}
	_, err = NewLedger(dir).All(t.Context(), "eod")
	wantSetup(t, err, "version 2", "newer lockrun")
	_, err = Init(t.Context(), dir)
	wantSetup(t, err, "version 2", "newer lockrun")
}
