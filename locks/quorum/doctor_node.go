package quorum

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// examine asks one server all there is to know about it. It ends with the first
// answer that does not come, once the server has answered at all.
func (p *patient) examine(ctx context.Context) (err error) {
	defer recovered(&err)
	if !p.reach(ctx) {
		return nil
	}
	for _, part := range []func(context.Context) error{p.claim, p.inform, p.rights, p.latency} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// noAnswer is err if it is none of the server's own words.
func noAnswer(err error) error {
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		return nil
	}
	return err
}

// refuses tells whether the answer to a command is that the user may not.
func refuses(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOPERM") }

// reach connects and logs in.
func (p *patient) reach(ctx context.Context) bool {
	const check = "redis reachable"
	err := p.node.client.Ping(ctx).Err()
	// The smallest set of rights has no PING. A refusal of anything else concerns
	// the login.
	if err == nil || refuses(err) && strings.Contains(strings.ToLower(err.Error()), "'ping'") {
		p.reached = true
		p.found.OK(check, "it answers")
		return true
	}
	cause, kind := p.node.explain(err)
	next := "start it, or correct the address"
	var login *loginError
	switch {
	case errors.As(err, &login) && login.next != "":
		cause, next = login.text, login.next
	case refuses(err) && p.target.db != 0:
		next = "grant +select, or use database 0"
	case kind == set:
		next = "correct the login or the TLS files"
	case noAnswer(err) == nil:
		next = "look at the server"
	}
	p.found.Fail(check, "%s; %s", cause, next)
	return false
}

// claim asks for a lock that no other server can have given away.
func (p *patient) claim(ctx context.Context) error {
	said, err := grab(ctx, p.node.client, lockKey(p.probe), p.value(), probeLife)
	if said.value != p.value() {
		p.rival = said.value
	}
	if err != nil && noAnswer(err) == nil && !refuses(err) && !strings.HasPrefix(err.Error(), "READONLY") {
		cause, _ := p.node.explain(err)
		p.found.Fail("redis writable", "%s; look at the server", cause)
	}
	return noAnswer(err)
}

// inform reads what the server tells about itself.
func (p *patient) inform(ctx context.Context) error {
	text, err := p.node.client.Info(ctx).Result()
	if err := noAnswer(err); err != nil {
		return err
	}
	if err != nil {
		cause, _ := p.node.explain(err)
		p.found.Warn("redis info", "role, replicas, eviction and persistence can't be seen: %s; grant +info for this check, or use another login", cause)
		return nil
	}
	info := parseInfo(text)
	p.runID = info["run_id"]
	p.role(info)
	p.keeping(info)
	return nil
}

// parseInfo reads the answer to INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(key, "#") {
			info[key] = value
		}
	}
	return info
}

func (p *patient) role(info map[string]string) {
	const check = "redis master"
	switch mode := info["redis_mode"]; {
	case mode == "cluster":
		p.found.Fail(check, "it is a node of a Redis Cluster; use independent masters")
	case mode == "sentinel":
		p.found.Fail(check, "it is a sentinel; name the master itself")
	case info["role"] == "slave":
		p.found.Fail(check, "it is a replica of %s; name the master itself, and each of them once", p.node.shown(info["master_host"]))
	case info["role"] == "master":
		p.found.OK(check, "it is a master")
	default:
		p.found.Warn(check, "it does not say what it is; see whether it is a Redis server")
	}
	if n, err := strconv.Atoi(info["connected_slaves"]); err == nil && n > 0 {
		p.found.Warn("redis replicas", "%d attached: if one takes over, it lacks the locks given out last; turn failover off, the other nodes are the spare", n)
	} else {
		p.found.OK("redis replicas", "none attached")
	}
}

// keeping judges whether the server may forget a lock.
func (p *patient) keeping(info map[string]string) {
	if policy := info["maxmemory_policy"]; policy == "noeviction" {
		p.found.OK("redis eviction", "maxmemory-policy is noeviction")
	} else {
		p.found.Warn("redis eviction", "maxmemory-policy is %q: short of memory, it drops locks; set noeviction", p.node.shown(policy))
	}
	const check = "redis persistence"
	switch {
	case info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err":
		p.found.Warn(check, "its append-only file can't be written; look at its disk")
	case info["aof_enabled"] == "1":
		p.found.OK(check, "it has an append-only file (appendfsync everysec forgets up to a second)")
	default:
		p.found.Warn(check, "after a restart it is empty or old, and gives out locks that are still held (the lease in Postgres stops the second run); "+
			"set appendonly yes, or start it no sooner than the ttl (%s) after it went down", p.timing.TTL)
	}
}

// latency compares a round trip with the time that a node has for it.
func (p *patient) latency(ctx context.Context) error {
	const check = "redis latency"
	best := time.Duration(0)
	for range 3 {
		began := time.Now()
		if err := noAnswer(p.node.client.Get(ctx, lockKey(p.probe)).Err()); err != nil {
			return err
		}
		if d := time.Since(began); best == 0 || d < best {
			best = d
		}
	}
	trips := 3 // connect, log in, ask
	if p.target.tls {
		trips = 5
	}
	limit := min(p.timing.Call, maxGrace)
	shown := best.Round(10 * time.Microsecond)
	if time.Duration(trips)*best > limit {
		p.found.Warn(check, "a round trip takes %s; asking anew takes %d of them, and once a majority has answered, a node is left behind after %s (ttl %s); raise --ttl, or use a nearer node",
			shown, trips, limit, p.timing.TTL)
		return nil
	}
	p.found.OK(check, "a round trip takes %s", shown)
	return nil
}
