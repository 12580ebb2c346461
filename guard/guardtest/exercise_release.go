package guardtest

import (
	"errors"
	"strings"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

func (f *ledgerFixture) release(force bool) (guard.Lease, bool, error) {
	f.Helper()
	was, audit, err := f.ledger.Release(f.ctx(), &guard.Eviction{Name: f.name, Reason: "host is gone", Actor: "ops@desk", Force: force})
	if audit != nil {
		f.recorded(audit)
	}
	return was, audit != nil, err
}

func releases(f *ledgerFixture) {
	for name, c := range map[string]struct {
		renewed, expires time.Duration
		force            bool
	}{
		"overdue": {-40 * time.Second, 20 * time.Second, false},
		"absurd":  {-time.Second, 10_000 * time.Hour, false},
		"future":  {10 * time.Hour, 11 * time.Hour, false},
		"forced":  {-time.Second, time.Minute, true},
	} {
		r := f.request(name)
		won := f.granted(f.a, r)
		f.lh.Shift(f.T, f.name, c.renewed, c.expires)
		was, ended, err := f.release(c.force)
		if err != nil || !ended || was.RunID != r.RunID || was.PID != r.PID {
			f.Fatalf("%s: %+v, %v, %v", name, was, ended, err)
		}
		l := f.lease()
		if f.live(r.RunID) || l.RunID != r.RunID || l.Token != won.Token || l.Absurd(f.now()) {
			f.Fatalf("%s: lease %+v", name, l)
		}
		au := f.lh.Audits(f.T, f.name)
		if last := au[len(au)-1]; last.Action != "release" || last.Reason != "host is gone" || last.Date != "" || column(f.T, last.Before, "run_id") != r.RunID ||
			column(f.T, last.Before, "expires_at") == column(f.T, last.After, "expires_at") {
			f.Fatalf("%s: audit %+v", name, last)
		}
		f.lost(f.a, r)
		f.refused(f.b, f.request(name), guard.IsUnknown)
		if _, ended, err := f.release(false); ended || err != nil || len(f.lh.Audits(f.T, f.name)) != len(au) {
			f.Fatalf("%s: a second release: %v, %v", name, ended, err)
		}
	}
}

func releaseRefuses(f *ledgerFixture) {
	if _, _, err := f.release(true); !errors.Is(err, guard.ErrNotFound) {
		f.Fatalf("no such name: %v", err)
	}
	r := f.request("")
	f.granted(f.a, r)
	before := f.rows("")
	var held *locks.HeldError
	if _, _, err := f.release(false); !errors.As(err, &held) || held.By.RunID != r.RunID {
		f.Fatalf("a live one: %v", err)
	}
	f.unchanged(before, "")
	if au := f.lh.Audits(f.T, f.name); len(au) != 0 {
		f.Fatalf("audit of a refusal %+v", au)
	}
}

// What is outside the record needs no lease and no date to be noted.
func notes(f *ledgerFixture) {
	for _, a := range []Audit{
		{Action: "release", Before: `{"lock": "lockrun:lock:x"}`},
		{Action: "release", Date: theDate, After: `{"lock": 1}`},
	} {
		a.Actor, a.Name, a.Reason = "ops@desk", f.name, "host is gone"
		noted, err := f.ledger.Note(f.ctx(), &a)
		if err != nil {
			f.Fatal(err)
		}
		f.recorded(noted)
		if noted.Action != a.Action || noted.Date != a.Date || noted.Reason != a.Reason || noted.Before != a.Before || noted.After != a.After ||
			!strings.HasPrefix(noted.Actor, a.Actor) {
			f.Fatalf("noted %+v, want %+v", noted, a)
		}
	}
}
