package incident

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockrun/locks/locktest"
)

// killings runs a program again and again, each time with a new key, and kills
// it with -9 one request to Redis later than the last time: once so that Redis
// still gets the request, once so that it does not. For Redis there are no other
// instants. It ends with the first run that comes to its own end, and returns,
// for each one that was killed, how long the keys had to live that it left.
func killings(
	t *testing.T, node *locktest.Redis, client *redis.Client, start func(pod string, way *road) *pod, onRenewal func(pod string),
) map[string][]time.Duration {
	t.Helper()
	left := map[string][]time.Duration{}
	for n := 1; ; n++ {
		for _, arrives := range []bool{false, true} {
			name := fmt.Sprintf("pod-%d-%t", n, arrives)
			way := newRoad(t, node.Addr())
			started := make(chan *pod, 1)
			killed := false
			var victim *pod
			way.asks(func(k int, request []byte) bool {
				if victim == nil {
					victim = <-started
				}
				if k == n {
					victim.kill()
					killed = true
					return arrives
				}
				if bytes.Contains(bytes.ToLower(request), []byte("pexpire")) {
					onRenewal(name)
				}
				return k < n
			})
			p := start(name, way)
			started <- p
			<-p.done
			way.close()
			if !killed {
				if p.status() != "0" || n < 4 {
					t.Fatalf("%s was not killed, sent %d requests and ended with %s: %q", name, way.count, p.status(), p.said())
				}
				return left
			}
			left[name] = lives(t, client)
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lives says of each key how long it has to live; -1: for ever.
func lives(t *testing.T, client *redis.Client) []time.Duration {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []time.Duration
	for _, key := range keys {
		d, err := client.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if d != -2 { // gone since
			all = append(all, d)
		}
	}
	return all
}

// Whoever dies between SETNX and EXPIRE leaves a lock that nobody gets any more.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	count := func(t *testing.T, left map[string][]time.Duration) (keys, forEver int) {
		t.Helper()
		for _, lives := range left {
			for _, d := range lives {
				keys++
				if d < 0 {
					forEver++
				}
			}
		}
		t.Logf("killed at %d instants: %d keys left, %d of them for ever", len(left), keys, forEver)
		return keys, forEver
	}
	t.Run("handmade", func(t *testing.T) {
		t.Parallel()
		node, c := locktest.StartRedis(t), newCluster(t)
		client := node.Client()
		defer func() { _ = client.Close() }()
		start := func(pod string, way *road) *pod {
			c.finish(pod)
			return c.handmade(pod, way.url(), "1s", "0s")
		}
		if _, forEver := count(t, killings(t, node, client, start, func(string) {})); forEver == 0 {
			t.Error("the fault did not show")
		}
	})
	t.Run("lockrun", func(t *testing.T) {
		t.Parallel()
		node := locktest.StartRedis(t)
		client := node.Client()
		defer func() { _ = client.Close() }()
		c := lockrunCluster(t, node.URL())
		start := func(pod string, way *road) *pod {
			args := []string{"--name", pod, "--redis", way.url(), "--ttl", "2s"}
			return c.lockrun(pod, append(args, c.batch()...)...)
		}
		// The job ends after the first renewal, so that this is among the instants.
		keys, forEver := count(t, killings(t, node, client, start, c.finish))
		if keys == 0 || forEver > 0 {
			t.Errorf("%d keys left, %d of them for ever: want some, and none", keys, forEver)
		}
		for _, p := range c.postings("") {
			eventually(t, "the job of "+p.pod+" is dead", func() bool { return !alive(p.pid) })
		}
	})
}

var calls = regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=([0-9]+)`)

// commands is how many commands a server has executed, those of scripts
// included, other than those of this count.
func commands(t *testing.T, client *redis.Client) (all int, which string) {
	t.Helper()
	text, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, m := range calls.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[2]); err == nil && m[1] != "info" && m[1] != "config|resetstat" {
			all += n
			parts = append(parts, m[1]+" "+m[2])
		}
	}
	return all, strings.Join(parts, ", ")
}

// Those who wait ask again every ten milliseconds, all of them.
func TestWaitersSpin(t *testing.T) {
	t.Parallel()
	const waiters = 5
	const atMost = 5 // commands per waiter and second that lockrun may need
	// watch counts what Redis has to do for the waiters during some seconds, the
	// holder's renewals included.
	watch := func(t *testing.T, node *locktest.Redis, d time.Duration) float64 {
		t.Helper()
		client := node.Client()
		defer func() { _ = client.Close() }()
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-time.After(d) // not a wait: the time over which it is counted
		n, which := commands(t, client)
		rate := float64(n) / time.Since(began).Seconds() / waiters
		t.Logf("%.1f commands per second and waiter (%s)", rate, which)
		return rate
	}
	t.Run("handmade", func(t *testing.T) {
		t.Parallel()
		node, c := locktest.StartRedis(t), newCluster(t)
		c.handmade("pod-1", node.URL(), "1m", "0s")
		c.running("pod-1")
		for i := range waiters {
			c.handmade(fmt.Sprint("waiter-", i), node.URL(), "1m", "1m")
		}
		client := node.Client()
		defer func() { _ = client.Close() }()
		eventually(t, "all of them ask", func() bool { return connections(t, client) > waiters })
		if rate := watch(t, node, time.Second); rate < 2*atMost {
			t.Errorf("the fault did not show: %.1f commands per second and waiter", rate)
		}
	})
	t.Run("lockrun", func(t *testing.T) {
		t.Parallel()
		node := locktest.StartRedis(t)
		c := lockrunCluster(t, node.URL())
		one := c.run("pod-1", day, "--ttl", "3s")
		c.running("pod-1")
		var all []*pod
		for i := range waiters {
			p := c.run(fmt.Sprint("waiter-", i), day, "--wait", "1m", "-v")
			all = append(all, p)
			p.says("held by pod-1")
		}
		if rate := watch(t, node, 4*time.Second); rate > atMost {
			t.Errorf("%.1f commands per second and waiter, want %d at most", rate, atMost)
		}
		sessions := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
		eventually(t, "Postgres has one session, the holder's", func() bool { return c.text(sessions) == "1" })
		// And they are woken: one after the other finds the date done.
		c.finish("pod-1")
		one.ends("0")
		for _, p := range all {
			p.ends("0", "already done")
		}
		c.only()
	})
}

// connections is how many clients a server has besides us.
func connections(t *testing.T, client *redis.Client) int {
	t.Helper()
	text, err := client.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(text, "\n") - 1
}
