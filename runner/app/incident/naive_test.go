package incident

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockrun/locks/locktest"
)

// The two locks that failed, as they were. Both are called
//
//	plain-lock|handmade-lock ADDR TTL WAIT COMMAND...
//
// and both run the command under the key lock:eod-interest. ADDR is a Redis, or
// "sentinel:" and a sentinel. Who waits in vain ends with 75.

const naiveKey = "lock:" + job

type naiveArgs struct {
	addr      string
	ttl, wait time.Duration
	command   []string
}

func parseNaive() naiveArgs {
	ttl, err := time.ParseDuration(os.Args[2])
	must(err)
	wait, err := time.ParseDuration(os.Args[3])
	must(err)
	return naiveArgs{os.Args[1], ttl, wait, os.Args[4:]}
}

// connect finds the master.
func (a naiveArgs) connect() *redis.Client {
	sentinel, ok := strings.CutPrefix(a.addr, "sentinel:")
	if !ok {
		return locktest.ClientFor(a.addr)
	}
	c := locktest.ClientFor(sentinel)
	defer func() { _ = c.Close() }()
	addr, err := c.Do(context.Background(), "SENTINEL", "get-master-addr-by-name", "mymaster").StringSlice()
	must(err)
	return locktest.ClientFor(strings.Join(addr, ":"))
}

func (a naiveArgs) run() {
	cmd := exec.Command(a.command[0], a.command[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		say("the command: %v", err)
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func gaveUp() {
	say("gave up waiting for %s", naiveKey)
	os.Exit(75)
}

// plainLockMain is the lock of the first night: SET NX with an expiry, a value
// that says whose it is, a watchdog that extends it every third of its time, and
// stops for good when that has failed once.
func plainLockMain() {
	a := parseNaive()
	ctx := context.Background()
	mine := os.Getenv("POD") + "-" + strconv.Itoa(os.Getpid())
	var c *redis.Client
	for deadline := time.Now().Add(a.wait); ; {
		c = a.connect()
		ok, err := c.SetNX(ctx, naiveKey, mine, a.ttl).Result()
		if ok {
			break
		}
		left, _ := c.PTTL(ctx, naiveKey).Result()
		_ = c.Close()
		if time.Until(deadline) < 0 {
			gaveUp()
		}
		if err == nil && left > 0 {
			say("%s is held, for %s to come", naiveKey, left)
		}
		time.Sleep(max(left, 20*time.Millisecond)) // woken when the key that it has seen expires
	}
	say("acquired %s", naiveKey)
	go func() {
		for range time.Tick(a.ttl / 3) {
			if ok, err := c.PExpire(ctx, naiveKey, a.ttl).Result(); err != nil || !ok {
				say("Can't update %s expiration: %v", naiveKey, err)
				return
			}
		}
	}()
	a.run()
	c = a.connect()
	holder, err := c.Get(ctx, naiveKey).Result()
	if !errors.Is(err, redis.Nil) {
		must(err)
	}
	if holder != mine {
		say("attempt to unlock %s, not locked by current thread: it is %q's", naiveKey, holder)
		os.Exit(1)
	}
	must(c.Del(ctx, naiveKey).Err())
}

// handmadeLockMain is the lock of the second night, line by line: SETNX and then
// EXPIRE, no renewal, a "re-entrant" detour by the time in the value, a new try
// every ten milliseconds, and a DEL that asks nobody whose key it is.
func handmadeLockMain() {
	a := parseNaive()
	c := a.connect()
	for deadline := time.Now().Add(a.wait); !handmadeTry(c, a.ttl); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			gaveUp()
		}
	}
	say("acquired %s", naiveKey)
	a.run()
	must(c.Del(context.Background(), naiveKey).Err())
}

func handmadeTry(c *redis.Client, ttl time.Duration) bool {
	ctx := context.Background()
	now := time.Now()
	expires := strconv.FormatInt(now.Add(ttl).UnixMilli(), 10)
	won, err := c.SetNX(ctx, naiveKey, expires, 0).Result()
	must(err)
	if won { // location 1
		must(c.PExpire(ctx, naiveKey, ttl).Err())
		return true
	}
	current, err := c.Get(ctx, naiveKey).Result() // location 2
	if errors.Is(err, redis.Nil) {
		current = "null"
	}
	at, err := strconv.ParseInt(current, 10, 64) // location 3
	if err != nil {
		say("redis setNX error java.lang.NumberFormatException: For input string: %q", current)
		os.Exit(1)
	}
	if at < now.UnixMilli() {
		old, err := c.Do(ctx, "GETSET", naiveKey, expires).Text()
		return err == nil && old == current
	}
	return false
}
