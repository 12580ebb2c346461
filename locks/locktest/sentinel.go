package locktest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sentinelName is what the sentinel calls the master that it watches.
const sentinelName = "mymaster"

// RedisSet is what many take for a Redis that can't die: a master, replicas, and
// a sentinel that makes one of them the master when it does.
type RedisSet struct {
	*Process     // the sentinel
	Master       *Redis
	Replicas     []*Redis
	SentinelAddr string
	tb           testing.TB
}

// StartRedisSet starts a master with so many replicas, all of them up to date,
// and one sentinel.
func StartRedisSet(tb testing.TB, replicas int) *RedisSet {
	tb.Helper()
	start := func(args ...string) *Redis {
		r := StartRedis(tb, append([]string{"--masteruser", "copier", "--masterauth", "copier", "--repl-diskless-sync-delay", "0"}, args...)...)
		r.do("ACL", "SETUSER", "copier", "on", ">copier", "+psync", "+replconf", "+ping")
		return r
	}
	s := &RedisSet{tb: tb, Master: start()}
	for range replicas {
		s.Replicas = append(s.Replicas, start("--replicaof", "127.0.0.1", fmt.Sprint(s.Master.port)))
	}
	for _, r := range s.Replicas {
		s.eventually("the replica is up to date", func() bool { return strings.Contains(r.do("INFO", "replication"), "master_link_status:up") })
	}
	s.startSentinel()
	s.eventually("the sentinel knows the replicas", func() bool {
		return strings.Contains(s.sentinel("INFO", "sentinel"), fmt.Sprintf("status=ok,address=%s,slaves=%d,", s.Master.Addr(), replicas))
	})
	return s
}

func (s *RedisSet) startSentinel() {
	s.tb.Helper()
	port, dir := FreePort(s.tb), tempDir(s.tb, nil)
	s.SentinelAddr = fmt.Sprintf("127.0.0.1:%d", port)
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %[3]s 127.0.0.1 %[4]d 1\n"+
		"sentinel down-after-milliseconds %[3]s %[5]d\nsentinel failover-timeout %[3]s 10000\n",
		port, dir, sentinelName, s.Master.port, patient.Milliseconds())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil { // it writes there what it has learned
		s.tb.Fatal(err)
	}
	s.Process = startProcess(s.tb, nil, FindBinary(s.tb, "redis-server", "redis-server"), conf, "--sentinel")
	s.tb.Cleanup(func() { s.stop(syscall.SIGTERM) })
	err := s.waitReady(func() error {
		c, err := net.Dial("tcp", s.SentinelAddr)
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		s.tb.Fatal(err)
	}
}

// CutReplication breaks the links between the master and its replicas, as a
// broken network does: what the master is told from here on stays with it.
func (s *RedisSet) CutReplication() {
	s.tb.Helper()
	s.Master.do("ACL", "SETUSER", "copier", "off")
	s.Master.do("CLIENT", "KILL", "TYPE", "replica")
	for _, r := range s.Replicas {
		s.eventually("the replica has lost its master", func() bool { return strings.Contains(r.do("INFO", "replication"), "master_link_status:down") })
	}
}

// MasterAddr asks the sentinel, as clients do.
func (s *RedisSet) MasterAddr() string {
	s.tb.Helper()
	return strings.Join(strings.Fields(s.sentinel("SENTINEL", "get-master-addr-by-name", sentinelName)), ":")
}

// FailOver kills the master with SIGKILL, waits until the sentinel has made
// another server the master, and returns that one. The sentinel is impatient
// just for that time: on a busy machine it would take the living for dead.
func (s *RedisSet) FailOver() *Redis {
	s.tb.Helper()
	s.Master.Kill()
	s.takeForDeadAfter(impatient)
	var promoted *Redis
	s.eventually("+switch-master", func() bool {
		addr := s.MasterAddr()
		for _, r := range s.Replicas {
			if r.Addr() == addr && strings.Contains(r.do("INFO", "replication"), "role:master") {
				promoted = r
			}
		}
		return promoted != nil
	})
	s.takeForDeadAfter(patient)
	return promoted
}

// A replica whose link has been broken for ten times as long is not promoted.
const (
	impatient = 600 * time.Millisecond
	patient   = time.Minute
)

func (s *RedisSet) takeForDeadAfter(d time.Duration) {
	s.tb.Helper()
	s.sentinel("SENTINEL", "SET", sentinelName, "down-after-milliseconds", d.Milliseconds())
}

func (s *RedisSet) eventually(what string, met func() bool) {
	s.tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); !met(); {
		if time.Now().After(deadline) {
			s.tb.Fatalf("waited in vain: %s; the sentinel says\n%s", what, s.Log())
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (s *RedisSet) sentinel(command ...any) string {
	s.tb.Helper()
	return ask(s.tb, "redis://"+s.SentinelAddr, command...)
}

func (r *Redis) do(command ...any) string {
	r.tb.Helper()
	return ask(r.tb, r.URL(), command...)
}

// ask returns a server's answer as text, the elements of a list separated by blanks.
func ask(tb testing.TB, url string, command ...any) string {
	tb.Helper()
	c := ClientFor(url)
	defer func() { _ = c.Close() }()
	answer, err := c.Do(context.Background(), command...).Result()
	if err != nil {
		tb.Fatalf("%s: %v: %v", url, command, err)
	}
	return strings.Trim(fmt.Sprint(answer), "[]")
}
