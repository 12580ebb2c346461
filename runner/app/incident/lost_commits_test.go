package incident

import (
	"strings"
	"testing"

	"lockrun/locks/locktest"
)

// The standby lacks what was committed last. That is where lockrun's promise
// ends, and a date runs twice: doctor says so beforehand, the first run notices
// and is ended, and the tokens tell a ledger which of the two is the later one.
func TestAsynchronousStandbyLosesCommits(t *testing.T) {
	t.Parallel()
	p := newPair(t, "fsync=on")
	p.lockrun("operator", "doctor").ends("0", "warn  postgres standbys",
		"1 attached, and synchronous_standby_names is empty: a standby that is promoted may lack the last dates; name one that commits wait for")

	// What was done long ago is safe. The standby knows of pod-3 that it has begun.
	p.finish("pod-0")
	p.run("pod-0", "2026-11-25").ends("0")
	zeroth := p.only()
	monthEnd := append([]string{"--name", "month-end", "--date", day, "--holder", "pod-3", "--ttl", "2s"}, p.batch()...)
	three := p.lockrun("pod-3", monthEnd...)
	p.running("pod-3")
	eventually(t, "the standby has both", func() bool {
		return p.onStandby("SELECT string_agg(state, ' ' ORDER BY run_date) FROM lockrun.run") == "succeeded running"
	})

	// From here on the primary is alone, and nobody is told.
	p.standby.Exec(t, "postgres", "ALTER SYSTEM SET primary_conninfo = ''")
	p.standby.Exec(t, "postgres", "SELECT pg_reload_conf()")
	eventually(t, "the standby is cut off", func() bool { return p.onPrimary("SELECT count(*) FROM pg_stat_replication") == "0" })
	p.finish("pod-3")
	three.ends("0")
	one := p.run("pod-1", day, "--ttl", "3s")
	first := p.running("pod-1")
	p.primary.Kill()
	p.promote()

	// The new primary has never heard of pod-1. pod-2 runs the date once more; pod-1
	// finds that its lease is not there and ends its job.
	two := p.run("pod-2", day, "--ttl", "3s")
	second := p.running("pod-2")
	said := one.ends("70", "lost, the child was ended", "not ours any more", "the attempt is not in the database any more", "it is kept in ")
	if strings.Count(said, "\n") != 1 {
		t.Errorf("pod-1 said %q, want one line", said)
	}
	if alive(first.pid) {
		t.Error("pod-1's job is still there")
	}
	p.finish("pod-2")
	two.ends("0")
	p.run("pod-0", "2026-11-25").ends("0", "already done")

	// Both are to be seen: the one in the record, the other on pod-1's host.
	p.wants("2026-11-25|pod-0|1|succeeded\n2026-11-27|pod-2|1|succeeded",
		"SELECT run_date, holder, attempt, outcome FROM lockrun.attempt WHERE name = 'eod-interest' ORDER BY run_date")
	p.lockrun("pod-1", "doctor").ends("0", "warn  outbox", "results that are not stored yet: 1")

	// The token of the one that is forgotten is not given out again.
	if !(zeroth.token < first.token && first.token < second.token) || timeline(first.token) != 1 || timeline(second.token) != 2 {
		t.Errorf("the tokens do not grow: %d, %d, %d", zeroth.token, first.token, second.token)
	}
	first, second = p.refresh(first), p.refresh(second)
	t.Logf("tokens %s, then %s; both ran at the same time for %s", tokenText(first.token), tokenText(second.token), round(together(first, second)))

	// An end that is lost makes no second run: nobody knows, so a person is asked.
	p.lockrun("pod-3", append([]string{"--wait", "20s"}, monthEnd...)...).ends("77", "nobody knows how an earlier attempt ended")
	if n := len(p.postings("pod-3")); n != 1 {
		t.Errorf("month-end ran %d times", n)
	}
}

// The primary takes no more writes, as one that has been demoted does.
func TestPrimaryBecomesReadOnly(t *testing.T) {
	t.Parallel()
	server := locktest.StartPostgres(t)
	c := newCluster(t)
	c.use(server.DSN("postgres"))
	one := c.run("pod-1", day, "--ttl", "3s")
	first := c.running("pod-1")
	server.Exec(t, "postgres", "ALTER SYSTEM SET default_transaction_read_only = on")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	text := c.run("pod-2", nextDay, "--ttl", "1s").ends("69", "read-only")
	if strings.Count(text, "\n") != 1 {
		t.Errorf("pod-2 said %q, want one line", text)
	}
	// pod-1 can't renew. Its job is dead before the lease that is on record is over.
	eventually(t, "pod-1's job is ended", func() bool { return !alive(first.pid) })
	first = c.only()
	spare := c.text("SELECT expires_at - to_timestamp($1::float8) FROM lockrun.lease", float64(first.last.UnixNano())/1e9)
	if strings.HasPrefix(spare, "-") {
		t.Errorf("pod-1's job wrote %s after its lease was over", spare[1:])
	}
	server.Exec(t, "postgres", "ALTER SYSTEM RESET default_transaction_read_only")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	one.ends("70", "lost, the child was ended", "read-only")
	c.wants("lost|pod-1|2026-11-27", "SELECT outcome, holder, run_date FROM lockrun.attempt")
	c.run("pod-2", day).ends("77", "an earlier attempt failed")
	t.Logf("pod-1's job wrote last %s before its lease was over", spare)
}
