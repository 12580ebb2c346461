package quorum

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

func TestReleaseRun(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	holder, operator := open(t, 6*time.Second, locktest.URLs(nodes)), open(t, 6*time.Second, locktest.URLs(nodes))
	c := claim("node-7")
	acquire(t, holder, c)
	value := values(t, nodes)[0]

	if n, err := operator.ReleaseRun(bounded(t), job, claim("other").RunID); n != 0 || err != nil {
		t.Fatalf("another run: %d, %v", n, err)
	}
	everywhere(t, nodes, value)
	foreign := map[int]string{1: "somebody's own text", 2: c.RunID + " but not of lockrun's making"}
	for i, text := range foreign {
		do(t, nodes[i], "SET", lockKey(job), text)
	}
	do(t, nodes[0], "PERSIST", lockKey(job)) // what never expires has to go too
	if n, err := operator.ReleaseRun(bounded(t), job, c.RunID); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	got := values(t, nodes)
	if got[0] != "" || got[1] != foreign[1] || got[2] != foreign[2] {
		t.Fatalf("values %q", got)
	}
	if n := do(t, nodes[0], "LLEN", wakeKey(job)); n != "1" {
		t.Errorf("%s tokens for waiters, want 1", n)
	}
	do(t, nodes[1], "DEL", lockKey(job))
	do(t, nodes[1], "RPUSH", lockKey(job), "a list")
	nodes[2].Pause()
	defer nodes[2].Resume()
	n, err := operator.ReleaseRun(bounded(t), job, c.RunID)
	var away *locks.UnavailableError
	if n != 0 || !errors.As(err, &away) || !strings.Contains(err.Error(), "may stay") || !strings.Contains(err.Error(), nodes[2].Addr()) {
		t.Fatalf("with a hung node: %d, %v", n, err)
	}
}
