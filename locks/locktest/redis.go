package locktest

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Redis is a redis-server of a test: a master of its own, without persistence.
type Redis struct {
	*Process
	tb   testing.TB
	path string
	args []string
	port int
}

// StartRedis starts a server with further command-line options such as
// "--requirepass", "secret".
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	r := &Redis{tb: tb, path: FindBinary(tb, "redis-server", "redis-server"), port: FreePort(tb)}
	r.args = append([]string{
		"--port", fmt.Sprint(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", tempDir(tb, nil),
	}, args...)
	r.Start()
	tb.Cleanup(func() { r.Stop() })
	return r
}

// StartRedisNodes starts n independent servers.
func StartRedisNodes(tb testing.TB, n int) []*Redis {
	tb.Helper()
	nodes := make([]*Redis, n)
	for i := range nodes {
		nodes[i] = StartRedis(tb)
	}
	return nodes
}

// Start starts the server again, empty, on the same port.
func (r *Redis) Start() {
	r.tb.Helper()
	r.Process = startProcess(r.tb, nil, r.path, r.args...)
	c := r.Client()
	defer func() { _ = c.Close() }()
	err := r.waitReady(func() error {
		err := c.Ping(context.Background()).Err()
		if err != nil && (strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "NOPERM")) {
			return nil // it answers; that is what was asked
		}
		return err
	})
	if err != nil {
		r.tb.Fatal(err)
	}
}

// Stop ends the server.
func (r *Redis) Stop() { r.stop(syscall.SIGTERM) }

// RestartEmpty kills the server and starts it again without its keys.
func (r *Redis) RestartEmpty() {
	r.tb.Helper()
	r.Kill()
	r.Start()
}

// Addr is host:port.
func (r *Redis) Addr() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// URL is what --redis takes.
func (r *Redis) URL() string { return "redis://" + r.Addr() }

// URLs lists what --redis takes for each node.
func URLs(nodes []*Redis) []string {
	urls := make([]string, len(nodes))
	for i, n := range nodes {
		urls[i] = n.URL()
	}
	return urls
}

// Client connects as the default user, for a test to look at the keys.
func (r *Redis) Client() *redis.Client { return ClientFor(r.URL()) }

// ClientFor is [Redis.Client] for a node of another process.
func ClientFor(url string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: strings.TrimPrefix(url, "redis://"), Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
