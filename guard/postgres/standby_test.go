package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// TestPromotion loses commits as an asynchronous standby does: the tokens must
// not repeat, and the holder on the old primary must notice.
func TestPromotion(t *testing.T) {
	primary := locktest.StartPostgres(t, "wal_level=replica", "max_wal_senders=4", "fsync=on")
	d := initDatabase(t, primary.DSN("postgres"))
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	first := granted(t, s, r)
	finish(t, s, r, guard.OutcomeFailed)

	standby := locktest.NewPostgres(t)
	standby.Tool("pg_basebackup", "-D", standby.Data(), "-h", "127.0.0.1", "-p", fmt.Sprint(primary.Port()), "-U", "postgres", "-X", "stream", "-c", "fast", "-R")
	standby.Start("hot_standby=on")
	hosts := fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable", standby.Port(), primary.Port())

	t.Run("standby", func(t *testing.T) {
		_, err := store(t, standby.DSN("postgres")).Acquire(bounded(t, time.Second), request("eod", "2026-01-16"))
		wantUnavailable(t, err, false, "is read-only (a standby?)")
		wantUnavailable(t, store(t, standby.DSN("postgres")).Renew(bounded(t, time.Second), r), false, "is read-only (a standby?)")
	})

	t.Run("examined", func(t *testing.T) {
		attached := [2]string{"warn standbys", "1 attached, and synchronous_standby_names is empty"}
		eventually(t, "the standby is attached", func() bool { return d.text("SELECT count(*) FROM pg_stat_replication") == "1" })
		exactly(t, examined(t, hosts), attached)
		exactly(t, examined(t, standby.DSN("postgres")), [2]string{"fail writable", "it is a standby"}, unsynced)
		// All of the hosts are standbys.
		alone := strings.Replace(hosts, fmt.Sprint(primary.Port()), fmt.Sprint(standby.Port()), 1)
		exactly(t, examined(t, alone+"&target_session_attrs=read-write"), [2]string{"fail writable", "it is a standby"}, unsynced)
	})

	both := store(t, hosts)
	held := request("eod", "2026-01-16")
	granted(t, both, held)
	copied := connectTo(t, standby.DSN("postgres"))
	eventually(t, "the standby has the run", func() bool {
		return queryText(t, copied, "SELECT state FROM lockrun.run WHERE run_date = '2026-01-16'") == "running"
	})
	finish(t, both, held, guard.OutcomeSucceeded)
	eventually(t, "the standby has its end", func() bool {
		return queryText(t, copied, "SELECT state FROM lockrun.run WHERE run_date = '2026-01-16'") == "succeeded"
	})

	// The standby is cut off; what the primary commits from here on is lost.
	replica := &database{TB: t, conn: copied}
	replica.exec("ALTER SYSTEM SET primary_conninfo = ''")
	replica.exec("SELECT pg_reload_conf()")
	eventually(t, "the standby is cut off", func() bool { return d.text("SELECT count(*) FROM pg_stat_replication") == "0" })
	lost := request("eod", "2026-01-17")
	last := granted(t, both, lost)
	if last.Token <= first.Token || last.Token>>32 != 1 {
		t.Errorf("tokens %d, then %d on the first timeline", first.Token, last.Token)
	}
	primary.Kill()
	replica.exec("SELECT pg_promote()")

	eventually(t, "a renewal finds the new primary", func() bool {
		err := both.Renew(bounded(t, time.Second), lost)
		if err == nil {
			t.Fatal("a lease that the new primary does not know was renewed")
		}
		return isLost(err)
	})
	end := &guard.End{Name: lost.Name, Date: lost.Date, RunID: lost.RunID, Outcome: guard.OutcomeLost}
	wantSetup(t, both.Finish(bounded(t, time.Second), end), "standby", "not in the database any more")
	next := granted(t, both, again(lost, guard.Rerun{}))
	if next.Token <= last.Token || next.Token>>32 != 2 {
		t.Errorf("token %d after %d: want a larger one, of timeline 2", next.Token, last.Token)
	}
}
