package incident

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockrun/locks/locktest"
)

// The second night: a lock made by hand, SETNX and EXPIRE and DEL. Each test has
// one of its faults, and lockrun in the same place.

// handmade starts the job under the handmade lock.
func (c *cluster) handmade(pod, redis, ttl, wait string) *pod {
	c.Helper()
	return c.start(pod, "handmade-lock", append([]string{redis, ttl, wait}, c.batch()[1:]...)...)
}

func value(t *testing.T, client *redis.Client, key string) string {
	t.Helper()
	v, err := client.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

// expired waits until the handmade lock is over by itself.
func expired(t *testing.T, node *locktest.Redis) {
	t.Helper()
	client := node.Client()
	defer func() { _ = client.Close() }()
	eventually(t, naiveKey+" expires", func() bool { return value(t, client, naiveKey) == "" })
}

// The job takes longer than the lock lives, and nobody renews it.
func TestExpiresUnderTheJob(t *testing.T) {
	t.Parallel()
	t.Run("handmade", func(t *testing.T) {
		t.Parallel()
		node, c := locktest.StartRedis(t), newCluster(t)
		one := c.handmade("pod-1", node.URL(), "1s", "0s")
		first := c.running("pod-1")
		expired(t, node)
		two := c.handmade("pod-2", node.URL(), "1m", "0s")
		both := c.bothRun(first, c.running("pod-2"), 0)
		t.Logf("both ran for %s", round(both))
		c.finish("pod-1")
		c.finish("pod-2")
		one.ends("0")
		two.ends("0")
	})
	t.Run("lockrun", func(t *testing.T) {
		t.Parallel()
		c := lockrunCluster(t, locktest.URLs(locktest.StartRedisNodes(t, 3))...)
		const ttl = 2 * time.Second
		one := c.run("pod-1", day, "--ttl", ttl.String())
		child := c.running("pod-1")
		// Whoever comes, before and after the first ttl is over, finds it held: by the
		// quorum, or by the lease if Redis knows nothing.
		forgetful := locktest.StartRedis(t).URL()
		tries := 0
		for ; child.last.Sub(child.first) < ttl*5/2; tries++ {
			c.run(fmt.Sprint("quorum-", tries), day).ends("75", "held by pod-1 (pid ")
			c.run(fmt.Sprint("lease-", tries), nextDay, "--redis", forgetful).ends("75", "held by pod-1 (pid ")
			eventually(t, "half a second more", func() bool {
				child = c.goesOn(child)
				return child.last.Sub(child.first) > time.Duration(tries+1)*time.Second/2
			})
		}
		c.finish("pod-1")
		one.ends("0")
		child = c.only()
		c.wants("t|t", "SELECT renewed_at - acquired_at > interval '3 s', expires_at - renewed_at <= interval '2 s' FROM lockrun.lease")
		t.Logf("a job of %s under a ttl of %s; %d contenders were refused", round(child.last.Sub(child.first)), ttl, 2*tries)
	})
}

// A job that was late gives back a lock that is not its own any more, and the
// third gets in beside the second.
func TestUnlocksAnothersLock(t *testing.T) {
	t.Parallel()
	t.Run("handmade", func(t *testing.T) {
		t.Parallel()
		node, c := locktest.StartRedis(t), newCluster(t)
		one := c.handmade("pod-1", node.URL(), "500ms", "0s")
		c.running("pod-1")
		expired(t, node)
		two := c.handmade("pod-2", node.URL(), "1m", "0s")
		second := c.running("pod-2")
		c.finish("pod-1")
		one.ends("0") // it has unlocked pod-2's lock, and does not know
		three := c.handmade("pod-3", node.URL(), "1m", "0s")
		t.Logf("pod-2 and pod-3 both ran for %s", round(c.bothRun(second, c.running("pod-3"), 0)))
		c.finish("pod-2")
		c.finish("pod-3")
		two.ends("0")
		three.ends("0")
	})
	t.Run("lockrun", func(t *testing.T) {
		t.Parallel()
		node := locktest.StartRedis(t)
		client := node.Client()
		defer func() { _ = client.Close() }()
		c := lockrunCluster(t, node.URL())
		// pod-1 stands still for longer than its locks live. Its guardian, which does
		// not, ends the job in time.
		one := c.run("pod-1", day, "--ttl", "2s")
		first := c.running("pod-1")
		one.signal(stop)
		two := c.run("pod-2", nextDay, "--ttl", "3s", "--wait", "20s")
		second := c.running("pod-2")
		if alive(first.pid) {
			t.Error("pod-2's job runs, and pod-1's is not dead")
		}
		its := value(t, client, lockKey)
		if !strings.HasSuffix(its, " pod-2") {
			t.Fatalf("the key says %q, want pod-2", its)
		}
		// pod-1 wakes, and gives back what it takes for its own.
		one.signal(wake)
		one.ends("70", "lost, the child was ended")
		if now := value(t, client, lockKey); now != its {
			t.Errorf("after pod-1's end the key says %q, want %q", now, its)
		}
		c.run("pod-3", nextDay).ends("75", "held by pod-2 (pid ")
		c.goesOn(second)
		c.finish("pod-2")
		two.ends("0")
		all := c.postings("")
		if len(all) != 2 || together(all[0], all[1]) >= 0 {
			t.Errorf("want two children, one after the other: %+v", all)
		}
		if all[1].token <= all[0].token {
			t.Errorf("token %d, then %d", all[0].token, all[1].token)
		}
		t.Logf("pod-2's job began %s after the last word of pod-1's", round(all[1].first.Sub(all[0].last)))
	})
}

// The holder unlocks between two steps of another's question.
func TestUnlockedMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("handmade", func(t *testing.T) {
		t.Parallel()
		node, c := locktest.StartRedis(t), newCluster(t)
		way := newRoad(t, node.Addr())
		one := c.handmade("pod-1", node.URL(), "1m", "0s")
		c.running("pod-1")
		way.asks(func(_ int, request []byte) bool {
			if strings.Contains(strings.ToLower(string(request)), "\r\nget\r\n") {
				c.finish("pod-1")
				<-one.done
			}
			return true
		})
		c.handmade("pod-2", way.url(), "1m", "20s").ends("1", `java.lang.NumberFormatException: For input string: "null"`)
	})
	t.Run("lockrun", func(t *testing.T) {
		t.Parallel()
		node := locktest.StartRedis(t)
		c, way := lockrunCluster(t, node.URL()), newRoad(t, node.Addr())
		one := c.run("pod-1", day, "--ttl", "60s")
		c.running("pod-1")
		c.finish("pod-2") // whose job has little to do
		way.asks(func(_ int, request []byte) bool {
			if strings.Contains(strings.ToLower(string(request)), "\r\nblpop\r\n") {
				c.finish("pod-1")
				<-one.done
			}
			return true
		})
		began := time.Now()
		c.run("pod-2", nextDay, "--redis", way.url(), "--wait", "30s").ends("0")
		t.Logf("pod-2 was through %s after it had asked, under a ttl of 60s", round(time.Since(began)))
	})
}

// A job that calls itself: under the handmade lock it waits for itself.
func TestCallsItself(t *testing.T) {
	t.Parallel()
	t.Run("handmade", func(t *testing.T) {
		t.Parallel()
		node, c := locktest.StartRedis(t), newCluster(t)
		inner := append([]string{filepath.Join(programDir, "handmade-lock"), node.URL(), "1m", "1s"}, c.batch()[1:]...)
		c.start("pod-1", "handmade-lock", append([]string{node.URL(), "1m", "1s"}, inner...)...).
			ends("0", "gave up waiting for lock:eod-interest", "the command: exit status 75")
		if all := c.postings(""); len(all) != 0 {
			t.Errorf("the inner call got through: %+v", all)
		}
	})
	t.Run("lockrun", func(t *testing.T) {
		t.Parallel()
		c := lockrunCluster(t, locktest.StartRedis(t).URL())
		call := []string{"--name", job, "--date", day, "--holder", "pod-1", "--"}
		inner := append([]string{filepath.Join(programDir, "lockrun")}, call...)
		one := c.lockrun("pod-1", append(append(call, inner...), c.batch()[1:]...)...)
		child := c.running("pod-1")
		c.run("pod-2", day).ends("75", "held by pod-1 (pid ")
		c.finish("pod-1")
		one.ends("0")
		c.only()
		c.wants(fmt.Sprintf("%s|%d|succeeded", child.runID, child.token), "SELECT run_id, token, outcome FROM lockrun.attempt")
	})
}
