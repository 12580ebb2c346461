package postgres

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

const testSkew = 5 * time.Second

// oddities are the findings that are not ok, as "status check: text".
func oddities(findings []locks.Finding) []string {
	var odd []string
	for _, f := range findings {
		if f.Status != locks.GradeOK {
			odd = append(odd, fmt.Sprintf("%s %s: %s", f.Status, strings.TrimPrefix(f.Check, "postgres "), f.Text))
		}
	}
	return odd
}

// exactly fails unless each text begins with "status check: " and holds the words
// of want in its place, and there is no other.
func exactly(t *testing.T, got []string, want ...[2]string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i][0]+": ") && strings.Contains(got[i], want[i][1])
	}
	if !ok {
		t.Errorf("got:\n%s\nwant:\n%q", strings.Join(got, "\n"), want)
	}
}

func examined(t *testing.T, dsn string) []string {
	t.Helper()
	return oddities(Examine(bounded(t, 20*time.Second), config(t, dsn), timing(t, time.Minute), testSkew))
}

// unsynced is what is odd about every server of these tests.
var unsynced = [2]string{"warn fsync", "off: a crash of the machine may lose dates"}

func TestExamine(t *testing.T) {
	pg := locktest.SharedPostgres(t)
	d := newDatabase(t)
	name := d.text("SELECT current_database()")
	as := func(role string) string { return strings.Replace(d.dsn, "postgres@", role+"@", 1) }
	d.exec(rolesSQL)
	for role, setting := range map[string]string{
		"doctor_runner": "", "doctor_reader": "default_transaction_read_only=on", "doctor_hasty": "synchronous_commit=off",
	} {
		d.exec("CREATE ROLE " + role + " LOGIN")
		d.exec("GRANT lockrun_runner TO " + role)
		if setting != "" {
			d.exec("ALTER ROLE " + role + " SET " + setting)
		}
	}
	d.exec("CREATE ROLE doctor_stranger LOGIN")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	empty := pg.Database(t)
	pooled := func(mode string) string { return locktest.StartPgBouncer(t, pg, name, mode, 2).DSN() }
	const noSuch = "\"doctor_nobody\" does not exist"

	for _, test := range []struct {
		name, dsn string
		want      [][2]string
	}{
		{"superuser", d.dsn, [][2]string{unsynced}},
		{"least_rights", as("doctor_runner"), [][2]string{unsynced}},
		{"read_only", as("doctor_reader"), [][2]string{{"fail writable", "default_transaction_read_only"}, unsynced}},
		{"hasty", as("doctor_hasty"), [][2]string{unsynced, {"warn synchronous_commit", "off is the default here; lockrun sets it to on in its own"}}},
		{"no_schema", empty, [][2]string{{"fail schema", "run \"lockrun init\""}, unsynced}},
		{"no_rights", as("doctor_stranger"), [][2]string{
			{"fail schema", "permission denied"},
			{"fail rights", "lacks USAGE on schema lockrun, SELECT on lockrun.meta, SELECT on lockrun.lease, INSERT on lockrun.lease"}, unsynced}},
		{"login", as("doctor_nobody"), [][2]string{{"fail reachable", noSuch}}},
		{"database", pg.DSN("nowhere"), [][2]string{{"fail reachable", "check the database"}}},
		{"refused", "postgres://127.0.0.1:1/x", [][2]string{{"fail reachable", "connection refused"}}},
		{"silent", fmt.Sprintf("postgres://%s/x", silent.Addr()), [][2]string{{"fail reachable", "no answer"}}},
		{"pooled_by_transaction", pooled("transaction"), [][2]string{unsynced}},
		{"pooled_by_session", pooled("session"), [][2]string{unsynced}},
		{"pooled_by_statement", pooled("statement"), [][2]string{unsynced, {"fail pooler", "set pool_mode=transaction"}}},
	} {
		t.Run(test.name, func(t *testing.T) { exactly(t, examined(t, test.dsn), test.want...) })
	}

	t.Run("each_right", func(t *testing.T) {
		runner := as("doctor_runner")
		lacks := func(revoke, grant, want string) {
			t.Helper()
			d.exec("REVOKE " + revoke + " FROM lockrun_runner")
			defer d.exec("GRANT " + grant + " TO lockrun_runner")
			found := examined(t, runner)
			for _, f := range found {
				if strings.HasPrefix(f, "fail rights: ") && strings.Contains(f, "lacks "+want+"; ") {
					return
				}
			}
			t.Errorf("without %s: %q", want, found)
		}
		for _, n := range needs {
			right := n.privilege + " ON lockrun." + n.table
			lacks(right, right, n.privilege+" on lockrun."+n.table)
		}
		lacks("USAGE ON SCHEMA lockrun", "USAGE ON SCHEMA lockrun", "USAGE on schema lockrun")
		const base = "EXECUTE ON FUNCTION lockrun.token_base()"
		lacks(base, base, "EXECUTE on lockrun.token_base()")
		exactly(t, examined(t, runner), unsynced)
	})

	t.Run("versions", func(t *testing.T) {
		d.exec("UPDATE lockrun.meta SET version = 99")
		exactly(t, examined(t, d.dsn), [2]string{"fail schema", "version 99"}, unsynced)
		d.exec("DELETE FROM lockrun.meta")
		exactly(t, examined(t, d.dsn), [2]string{"fail schema", "lockrun.meta is empty"}, unsynced)
		d.exec("DROP TABLE lockrun.audit")
		exactly(t, examined(t, d.dsn), [2]string{"fail schema", "lost its table audit"}, unsynced)
	})
}

func TestExamineDurability(t *testing.T) {
	for _, test := range []struct {
		name string
		g    ground
		want [][2]string
	}{
		{"alone", ground{Fsync: true, SynchronousCommit: "on"}, nil},
		{"synchronous", ground{Fsync: true, SynchronousCommit: "remote_apply", StandbyNames: "*", Standbys: 1}, nil},
		{"asynchronous", ground{Fsync: true, SynchronousCommit: "on", Standbys: 2}, [][2]string{{"warn standbys", "2 attached"}}},
		{"standby_missing", ground{Fsync: true, SynchronousCommit: "on", StandbyNames: "b"}, [][2]string{{"warn standbys", "none is attached"}}},
		{"local", ground{Fsync: true, SynchronousCommit: "local"}, [][2]string{{"warn synchronous_commit", "local"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &examination{}
			e.durability(test.g)
			exactly(t, oddities(e.found.List), test.want...)
		})
	}
}

func TestExamineClock(t *testing.T) {
	asked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	answered := asked.Add(time.Second)
	for off, want := range map[time.Duration]string{
		-testSkew: "", testSkew + time.Second: "", -time.Minute: "1m0s ahead of", time.Minute: "59s behind",
	} {
		e := &examination{maxSkew: testSkew}
		e.clock(asked.Add(off), asked, answered)
		if odd := strings.Join(oddities(e.found.List), ""); (odd != "") != (want != "") || !strings.Contains(odd, want) {
			t.Errorf("%s: %q", off, odd)
		}
	}
}

func TestExamineLatency(t *testing.T) {
	for trip, warned := range map[time.Duration]bool{time.Millisecond: false, time.Second: true} {
		e := &examination{timing: timing(t, time.Minute-time.Second*30)}
		e.latency(trip)
		if odd := oddities(e.found.List); (len(odd) > 0) != warned {
			t.Errorf("%s: %q", trip, odd)
		}
	}
}
