package incident

import (
	"fmt"
	"strings"
	"testing"

	"lockrun/locks/locktest"
)

// What has not happened yet: it is the Postgres that fails over. No Redis here:
// the lease and the guard stand alone.

// pair is a primary and its standby.
type pair struct {
	*testing.T
	*cluster
	primary, standby *locktest.Postgres
}

// newPair starts a primary with the settings, and a standby, and makes the tables.
// lockrun is given both addresses, the standby's first.
func newPair(t *testing.T, settings ...string) *pair {
	t.Helper()
	p := &pair{T: t, cluster: newCluster(t)}
	p.primary = locktest.StartPostgres(t, append([]string{"wal_level=replica", "max_wal_senders=4"}, settings...)...)
	p.newStandby()
	p.use(p.dsn)
	return p
}

// newStandby gives the primary another standby, and lockrun both addresses.
func (p *pair) newStandby() {
	p.T.Helper()
	p.standby = locktest.StandbyOf(p.T, p.primary)
	p.dsn = locktest.HostsDSN("postgres", p.standby, p.primary)
	p.env = []string{"LOCKRUN_POSTGRES=" + p.dsn}
	eventually(p.T, "the standby follows", func() bool { return p.text("SELECT state FROM pg_stat_replication") == "streaming" })
}

// synchronous makes each commit wait for the standby.
func (p *pair) synchronous() {
	p.T.Helper()
	p.primary.Exec(p.T, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+p.standby.Name()+"'")
	p.primary.Exec(p.T, "postgres", "SELECT pg_reload_conf()")
	eventually(p.T, "the standby is synchronous", func() bool { return p.text("SELECT sync_state FROM pg_stat_replication") == "sync" })
}

// promote makes the standby the primary, after the old one has died.
func (p *pair) promote() {
	p.T.Helper()
	p.standby.Exec(p.T, "postgres", "SELECT pg_promote()")
	p.primary, p.standby = p.standby, nil
}

// timeline is how many failovers the server has seen that gave out a token.
func timeline(token int64) int64 { return token >> 32 }

func tokenText(token int64) string {
	return fmt.Sprintf("%d of timeline %d", uint32(token), timeline(token))
}

// The standby has all that was committed. Four failovers, in the middle of a run,
// at its end, in the middle of an acquire, and one that takes too long: each date
// runs once.
func TestSynchronousStandbyTakesOver(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.synchronous()

	// Nobody starts anything on a standby. With both addresses lockrun finds the
	// primary, though it comes second.
	onStandby := locktest.HostsDSN("postgres", p.standby)
	p.run("pod-1", day, "--ttl", "1s", "--postgres", onStandby).ends("69", "read-only")
	p.finish("pod-0")
	p.run("pod-0", "2026-11-25").ends("0")

	// First night: the primary dies while the job runs. Until there is another one
	// nobody can decide anything.
	one := p.run("pod-1", day, "--ttl", "9s")
	first := p.running("pod-1")
	p.primary.Kill()
	p.run("pod-2", day, "--ttl", "1s").ends("69", "lockrun: ")
	p.promote()
	p.run("pod-2", day).ends("75", "held by pod-1 (pid ")
	eventually(t, "pod-1 renews its lease on the new primary", func() bool { return p.text("SELECT renewed_at > acquired_at FROM lockrun.lease") == "t" })
	p.run("pod-2", day).ends("75", "held by pod-1 (pid ")
	p.goesOn(first)
	p.finish("pod-1")
	one.ends("0")
	p.run("pod-2", day).ends("0", "already done")

	// Second night: it dies before the job ends, and comes back after that. The end
	// is stored where there is somebody to store it.
	p.newStandby()
	p.synchronous()
	two := p.run("pod-2", nextDay, "--ttl", "9s")
	second := p.running("pod-2")
	p.primary.Kill()
	p.finish("pod-2")
	eventually(t, "the job of pod-2 has ended", func() bool { return !alive(second.pid) })
	p.promote()
	two.ends("0")
	p.run("pod-1", nextDay).ends("0", "already done")

	// Third night: it dies when the acquire is committed and not yet answered. The
	// standby stands still just then, and has the commit before it knows.
	p.newStandby()
	p.synchronous()
	p.standby.Pause()
	three := p.run("pod-3", "2026-12-01", "--ttl", "9s")
	eventually(t, "the acquire waits for the standby", func() bool {
		return p.onPrimary("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1"
	})
	p.primary.Kill()
	p.standby.Resume()
	eventually(t, "the standby has the run", func() bool {
		return p.onStandby("SELECT count(*) FROM lockrun.attempt WHERE run_date = '2026-12-01'") == "1"
	})
	p.promote()
	third := p.running("pod-3")
	p.finish("pod-3")
	three.ends("0")
	p.run("pod-1", "2026-12-01").ends("0", "already done")

	// Fourth night: it takes longer than the lease lives. The job is dead before
	// that is over, and the end is stored all the same.
	p.newStandby()
	p.synchronous()
	four := p.run("pod-4", "2026-12-02", "--ttl", "3s")
	fourth := p.running("pod-4")
	p.primary.Kill()
	eventually(t, "the job of pod-4 is ended", func() bool { return !alive(fourth.pid) })
	fourth = p.refresh(fourth)
	spare := p.onStandby(fmt.Sprintf("SELECT expires_at - to_timestamp(%d / 1e9) FROM lockrun.lease", fourth.last.UnixNano()))
	if strings.HasPrefix(spare, "-") {
		t.Errorf("pod-4's job wrote %s after its lease was over", spare[1:])
	}
	p.promote()
	four.ends("70", "lost, the child was ended", "lease could not be renewed in time")
	p.run("pod-1", "2026-12-02").ends("77", "an earlier attempt failed")

	// One attempt each, and tokens that grow from timeline to timeline.
	p.run("pod-0", "2026-12-03").ends("0")
	p.wants("2026-11-25|pod-0|1|succeeded\n2026-11-27|pod-1|1|succeeded\n2026-11-30|pod-2|1|succeeded\n2026-12-01|pod-3|1|succeeded\n"+
		"2026-12-02|pod-4|1|lost\n2026-12-03|pod-0|1|succeeded",
		"SELECT run_date, holder, attempt, outcome FROM lockrun.attempt ORDER BY run_date")
	last := p.running("pod-0")
	if !(first.token < second.token && second.token < third.token && third.token < fourth.token && fourth.token < last.token) ||
		timeline(first.token) != 1 || timeline(last.token) != 5 {
		t.Errorf("the tokens do not grow: %d, %d, %d, %d, %d", first.token, second.token, third.token, fourth.token, last.token)
	}
	t.Logf("tokens %s, %s, %s, %s, %s", tokenText(first.token), tokenText(second.token), tokenText(third.token), tokenText(fourth.token), tokenText(last.token))
	t.Logf("pod-4's job wrote last %s before its lease was over", spare)
	if all := p.postings(""); len(all) != 6 {
		t.Errorf("%d children ran, want 6: %+v", len(all), all)
	}
}

// onPrimary and onStandby ask one of the two alone.
func (p *pair) onPrimary(query string) string {
	p.T.Helper()
	return ask(p.T, p.primary.DSN("postgres"), query)
}

func (p *pair) onStandby(query string) string {
	p.T.Helper()
	return ask(p.T, p.standby.DSN("postgres"), query)
}
