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

func TestLocks(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	holder, operator := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes))
	if found, err := operator.Locks(bounded(t), job); len(found) != 0 || err != nil {
		t.Fatalf("without a lock: %+v, %v", found, err)
	}
	c := claim("node 7")
	acquire(t, holder, c)
	found, err := operator.Locks(bounded(t), job)
	if err != nil || len(found) != 1 || found[0].Nodes != 3 || found[0].By.RunID != c.RunID || found[0].By.Text != "node 7" || found[0].By.PID != c.PID {
		t.Fatalf("%+v, %v", found, err)
	}
	if left := time.Until(found[0].By.Until); left > time.Minute || left < 30*time.Second {
		t.Fatalf("it ends in %s", left)
	}

	// Of two, the one on more nodes comes first; what never expires has no end.
	other := claim("node 8")
	do(t, nodes[0], "SET", lockKey(job), locks.EncodeValue(other), "PX", "60000")
	do(t, nodes[1], "PERSIST", lockKey(job))
	found, err = operator.Locks(bounded(t), job)
	if err != nil || len(found) != 2 || found[0].By.RunID != c.RunID || found[0].Nodes != 2 || !found[0].By.Until.IsZero() ||
		found[1].By.RunID != other.RunID || found[1].Nodes != 1 || found[1].By.Until.IsZero() {
		t.Fatalf("%+v, %v", found, err)
	}

	// What lockrun did not write is not its lock, and a node that hangs is named.
	do(t, nodes[0], "SET", lockKey(job), "somebody's own text")
	do(t, nodes[1], "DEL", lockKey(job))
	do(t, nodes[1], "RPUSH", lockKey(job), "a list")
	nodes[2].Pause()
	defer nodes[2].Resume()
	found, err = operator.Locks(bounded(t), job)
	var away *locks.UnavailableError
	if len(found) != 0 || !errors.As(err, &away) || !strings.Contains(err.Error(), nodes[2].Addr()) {
		t.Fatalf("with a hung node: %+v, %v", found, err)
	}
}
