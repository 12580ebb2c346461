package incident

import (
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockrun/locks/locktest"
)

// The first night, one second for six:
//
//	T+0s     pod-1     acquired lock lock:eod-interest
//	T+4s     node      the master dies, all at once
//	T+10s    pod-1     can't update the lock's expiration
//	T+10s    sentinel  +switch-master
//	T+30s    pod-2     acquired lock lock:eod-interest (on the new master)
//	T+2m10s  pod-1     done; the lock that it unlocks is not its own
const nightTTL = "5s"

// startNight is the set-up: a master, two replicas, a sentinel. The replicas are
// cut off before anybody takes the lock: what is some milliseconds at other
// times is as long as the test needs.
func startNight(t *testing.T) *locktest.RedisSet {
	t.Helper()
	set := locktest.StartRedisSet(t, 2)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the sentinel said:\n%s", set.Log())
		}
	})
	set.CutReplication()
	return set
}

// masterDies makes the node die and waits for the sentinel. No server knows the
// key any more. It returns when that would have expired, and the new master.
func masterDies(t *testing.T, set *locktest.RedisSet, key string) (time.Time, *locktest.Redis) {
	t.Helper()
	c := set.Master.Client()
	defer func() { _ = c.Close() }()
	if have, err := c.Do(t.Context(), "WAIT", 1, 50).Int(); err != nil || have != 0 {
		t.Fatalf("%d replicas have the key (%v), want none", have, err)
	}
	left, err := c.PTTL(t.Context(), key).Result()
	if err != nil || left <= 0 {
		t.Fatalf("the master does not have %s: %s %v", key, left, err)
	}
	died := time.Now()
	promoted := set.FailOver()
	t.Logf("+switch-master %s after the master's death", round(time.Since(died)))
	c = promoted.Client()
	defer func() { _ = c.Close() }()
	if n, err := c.Exists(t.Context(), key).Result(); err != nil || n != 0 {
		t.Fatalf("the new master knows %s: %d %v", key, n, err)
	}
	return died.Add(left), promoted
}

// The fault: Redis gives the lock to both, and both jobs run.
func TestPlainLockIsGivenTwice(t *testing.T) {
	t.Parallel()
	set := startNight(t)
	c := newCluster(t)
	lock := func(pod string) *pod {
		return c.start(pod, "plain-lock", append([]string{"sentinel:" + set.SentinelAddr, nightTTL, "30s"}, c.batch()[1:]...)...)
	}

	began := time.Now()
	one := lock("pod-1")
	one.says("acquired lock:eod-interest")
	first := c.running("pod-1")
	two := lock("pod-2")
	two.says("lock:eod-interest is held")
	masterDies(t, set, naiveKey)
	one.says("Can't update lock:eod-interest expiration")
	two.says("acquired lock:eod-interest")
	acquired := time.Since(began)
	both := c.bothRun(first, c.running("pod-2"), time.Second/2)

	c.finish("pod-1")
	one.ends("1", "attempt to unlock lock:eod-interest, not locked by current thread: it is \"pod-2-")
	c.finish("pod-2")
	two.ends("0")
	t.Logf("pod-2 acquired at T+%s; both ran together for %s", round(acquired), round(both))
}

// The same night with lockrun, on the same Redis. pod-1's way to Redis ends at
// the dead master: its renewals fail from there on, as they did then. pod-2's
// leads to whoever the sentinel says is master, so that the quorum (of the one
// address that both know) lies: pod-2 gets through the first door.
func TestLockrunTheSameNight(t *testing.T) {
	t.Parallel()
	// Those who trust the lease alone when Redis is away: pod-1 finishes its job,
	// and pod-2, which has waited for the key to expire, is told who has the lease.
	t.Run("preferred", func(t *testing.T) {
		t.Parallel()
		n := newLockrunNight(t, "--quorum", "preferred", "--ttl", nightTTL)
		one := n.run("pod-1", day)
		child := n.running("pod-1")
		two := n.run("pod-2", day, "--wait", "8s", "-v")
		two.says("held by pod-1")
		n.failover()
		one.says("warning: no quorum")
		text := two.ends("75", "held by pod-1 (pid ")
		if n.doors() == 0 {
			t.Errorf("pod-2 never got through the first door, so nothing is shown; it said %q", text)
		}
		n.goesOn(child)
		n.finish("pod-1")
		one.ends("0", "going on with the lease alone")
		n.only()
		n.wants("succeeded|1|pod-1", "SELECT outcome, attempt, holder FROM lockrun.attempt")
		t.Logf("pod-2 got through the first door %d times in 8 s and was refused at the second", n.doors())
	})

	// Those who want both: pod-1's way is mended in time, it takes its key on the
	// new master, and from then on the first door is shut again.
	t.Run("required_and_mended", func(t *testing.T) {
		t.Parallel()
		n := newLockrunNight(t, "--ttl", "12s")
		one := n.run("pod-1", day)
		n.running("pod-1")
		n.run("pod-2", day).ends("75", "held by pod-1 (pid ")
		promoted := n.failover()
		n.run("pod-2", day).ends("75", "held by pod-1 (pid ")
		eventually(t, "it is seen that pod-2 got through the first door", func() bool { return n.doors() == 1 })
		n.oldWay.leadTo(promoted.Addr())
		client := promoted.Client()
		defer func() { _ = client.Close() }()
		eventually(t, "pod-1 has its key on the new master", func() bool {
			value, _ := client.Get(t.Context(), lockKey).Result()
			return strings.HasSuffix(value, " pod-1")
		})
		n.run("pod-3", day).ends("75", "held by pod-1 (pid ")
		eventually(t, "the key was set twice, by pod-2 and by pod-1", func() bool { return n.doors() == 2 })
		n.finish("pod-1")
		one.ends("0")
		n.only()
		n.wants("succeeded|1|pod-1", "SELECT outcome, attempt, holder FROM lockrun.attempt")
	})

	// The same, and it is not mended: pod-1 is ended before its window closes. That
	// is no licence for pod-2: the date has been started.
	t.Run("required_and_not_mended", func(t *testing.T) {
		t.Parallel()
		n := newLockrunNight(t, "--ttl", "6s")
		began := time.Now()
		one := n.run("pod-1", day)
		n.running("pod-1")
		two := n.run("pod-2", day, "--wait", "20s", "-v")
		two.says("held by pod-1")
		n.failover()
		one.ends("70", "lost, the child was ended", "quorum could not be renewed in time")
		two.ends("77", "an earlier attempt failed", "pod-1")
		child := n.only()
		if alive(child.pid) {
			t.Error("pod-1's job is still there")
		}
		n.wants("lost|pod-1", "SELECT outcome, holder FROM lockrun.attempt")
		if !child.last.Before(n.expiry) {
			t.Errorf("pod-1's job wrote %s after its key would have expired", child.last.Sub(n.expiry))
		}
		t.Logf("pod-1's job wrote last at T+%s, %s before its key would have expired", round(child.last.Sub(began)), round(n.expiry.Sub(child.last)))
	})

	// The same, and pod-1's way is mended just while pod-2 stands between the two
	// doors: pod-1 sees another's value where its own should be. That ends it, before
	// anybody knows whether pod-2 will get any further. It does not.
	t.Run("required_and_contradicted", func(t *testing.T) {
		t.Parallel()
		n := newLockrunNight(t, "--ttl", "12s")
		one := n.run("pod-1", day)
		n.running("pod-1")
		promoted := n.failover()
		database, err := url.Parse(n.dsn)
		if err != nil {
			t.Fatal(err)
		}
		betweenDoors := newRoad(t, database.Host)
		betweenDoors.asks(func(_ int, request []byte) bool {
			if strings.Contains(string(request), "lockrun acquire") && !one.ended() {
				n.oldWay.leadTo(promoted.Addr())
				<-one.done
			}
			return true
		})
		database.Host = betweenDoors.addr
		n.options = []string{"--ttl", "60s"} // it has patience
		two := n.run("pod-2", day, "--postgres", database.String())
		one.ends("70", "lost, the child was ended", "1 of 1 Redis nodes say another value")
		two.ends("77", "an earlier attempt failed", "pod-1")
		n.only()
		n.wants("lost|pod-1", "SELECT outcome, holder FROM lockrun.attempt")
	})
}

const lockKey = "lockrun:lock:" + job

// lockrunNight is the night in which lockrun relies on the pods' two ways.
type lockrunNight struct {
	*cluster
	*testing.T
	set     *locktest.RedisSet
	options []string
	oldWay  *road     // pod-1's
	newWay  *road     // everybody else's: to whom the sentinel names
	expiry  time.Time // of the key that the old master had

	mu     sync.Mutex
	events []string // what happened to the key on the new master
}

func newLockrunNight(t *testing.T, options ...string) *lockrunNight {
	t.Helper()
	set := startNight(t)
	return &lockrunNight{
		T: t, set: set, options: options, cluster: lockrunCluster(t, set.Master.URL()),
		oldWay: newRoad(t, set.Master.Addr()), newWay: newRoad(t, set.Master.Addr()),
	}
}

func (n *lockrunNight) run(pod, date string, more ...string) *pod {
	n.T.Helper()
	way := n.newWay
	if pod == "pod-1" {
		way = n.oldWay
	}
	return n.cluster.run(pod, date, append(append([]string{"--redis", way.url()}, n.options...), more...)...)
}

// failover makes the master die. From here on it is seen what happens to the key
// on the new one; a SET NX that is refused is no event.
func (n *lockrunNight) failover() *locktest.Redis {
	n.T.Helper()
	expiry, promoted := masterDies(n.T, n.set, lockKey)
	n.expiry = expiry
	client := promoted.Client()
	n.T.Cleanup(func() { _ = client.Close() })
	if err := client.ConfigSet(n.T.Context(), "notify-keyspace-events", "KEA").Err(); err != nil {
		n.T.Fatal(err)
	}
	feed := client.Subscribe(n.T.Context(), "__keyspace@0__:"+lockKey)
	n.T.Cleanup(func() { _ = feed.Close() })
	if _, err := feed.Receive(n.T.Context()); err != nil {
		n.T.Fatal(err)
	}
	go n.listen(feed.Channel())
	n.newWay.leadTo(promoted.Addr())
	return promoted
}

func (n *lockrunNight) listen(messages <-chan *redis.Message) {
	for m := range messages {
		n.mu.Lock()
		n.events = append(n.events, m.Payload)
		n.mu.Unlock()
	}
}

// doors is how often somebody got the key on the new master.
func (n *lockrunNight) doors() (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e == "set" {
			times++
		}
	}
	return times
}
