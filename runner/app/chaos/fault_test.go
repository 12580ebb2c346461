//go:build linux

package chaos

import (
	"cmp"
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"lockrun/locks/locktest"
)

// fault is one thing that goes wrong for a while.
type fault struct {
	name string
	// pooled faults need a pooler between lockrun and Postgres, named ones need
	// servers that are known by name.
	pooled, named bool
	// do begins it. An error means that it could not be done now, because
	// another fault is in its way.
	do func(w *world, f plannedFault) error
	// undo ends it; nil for what is over at once.
	undo func(w *world, f plannedFault)
}

// The names of faults that the judge has to know.
const (
	faultPassword = "redis wants a password"
	faultOperator = "postgres row locked by an operator"
)

// faults are all kinds. A fault of Redis is one of node f.Node, unless its name
// says how many.
var faults = []fault{
	{name: "redis killed", do: killRedis, undo: startRedis},
	{name: "redis hung", do: pauseRedis, undo: resumeRedis},
	{name: "redis restarted empty", do: restartEmpty(1)},
	{name: "two redis restarted empty", do: restartEmpty(2)},
	{name: "all redis restarted empty", do: restartEmpty(nodes)},
	{name: "redis restarted empty, one after the other", do: restartRolling, undo: restartRollingOn},
	{name: "redis flushed", do: flush(1)},
	{name: "all redis flushed", do: flush(nodes)},
	{name: "redis evicting", do: config("maxmemory-policy", "allkeys-random", "maxmemory", "1"), undo: unconfig},
	{name: "redis out of memory", do: config("maxmemory", "1"), undo: unconfig},
	{name: "redis read-only", do: demoteRedis, undo: promoteRedis},
	{name: faultPassword, do: lockOut, undo: unconfig},
	{name: "all redis hung", do: forAll(pauseRedis), undo: forAllUndo(resumeRedis)},
	{name: "redis wire cut", do: cutRedis, undo: healRedis},
	{name: "all redis wires cut", do: forAll(cutRedis), undo: forAllUndo(healRedis)},
	{name: "redis requests held", do: holdRedis(locktest.Requests), undo: healRedis},
	{name: "redis answers held", do: holdRedis(locktest.Answers), undo: healRedis},

	{name: "postgres killed", do: killPostgres, undo: func(w *world, _ plannedFault) { w.startPostgres() }},
	{name: "postgres hung", do: pausePostgres, undo: resumePostgres},
	{name: "postgres restarted", do: restartPostgres},
	{name: "postgres read-only", do: func(w *world, _ plannedFault) error { return w.writable(false) }, undo: func(w *world, _ plannedFault) { _ = w.writable(true) }},
	{name: faultOperator, do: lockRow, undo: func(w *world, _ plannedFault) { w.releaseOperator() }},
	{name: "postgres wire cut", do: cutPostgres, undo: healPostgres},
	{name: "postgres connections reset", do: func(w *world, _ plannedFault) error { w.wire.Reset(); return nil }},
	{name: "postgres requests held", do: holdPostgres(locktest.Requests), undo: healPostgres},
	{name: "postgres answers held", do: holdPostgres(locktest.Answers), undo: healPostgres},
	{name: "answer to acquire lost", do: lose("lockrun acquire", locktest.LoseAnswer), undo: healPostgres},
	{name: "answer to renew lost", do: lose("SET renewed_at", locktest.LoseAnswer), undo: healPostgres},
	{name: "answer to finish lost", do: lose("AND outcome IN (", locktest.LoseAnswer), undo: healPostgres},
	{name: "answer to undo lost", do: lose("WHERE a.outcome IN (", locktest.LoseAnswer), undo: healPostgres},
	{name: "acquire lost", do: lose("lockrun acquire", locktest.LoseRequest), undo: healPostgres},
	{name: "renew lost", do: lose("SET renewed_at", locktest.LoseRequest), undo: healPostgres},
	{name: "finish lost", do: lose("AND outcome IN (", locktest.LoseRequest), undo: healPostgres},
	{name: "pooler restarted", pooled: true, do: restartPooler},
	{name: "pooler hung", pooled: true, do: pausePooler, undo: resumePooler},

	{name: "name server silent", named: true, do: moody(silent), undo: cheerUp},
	{name: "name server denies names", named: true, do: moody(denying), undo: cheerUp},
	{name: "disk full", do: fillDisk, undo: emptyDisk},
}

func faultNamed(name string) *fault {
	for i := range faults {
		if faults[i].name == name {
			return &faults[i]
		}
	}
	return nil
}

func (w *world) node(f plannedFault) *locktest.Redis { return w.redis[f.Node%nodes] }

func killRedis(w *world, f plannedFault) error { w.node(f).Kill(); return nil }

func startRedis(w *world, f plannedFault) {
	if w.redisDo(w.node(f), "PING") != nil {
		w.node(f).Kill() // whatever state it is in
		w.node(f).Start()
	}
}

func pauseRedis(w *world, f plannedFault) error { w.node(f).Pause(); return nil }
func resumeRedis(w *world, f plannedFault)      { w.node(f).Resume() }

func forAll(do func(*world, plannedFault) error) func(*world, plannedFault) error {
	return func(w *world, f plannedFault) error {
		for f.Node = range nodes {
			if err := do(w, f); err != nil {
				return err
			}
		}
		return nil
	}
}

func forAllUndo(undo func(*world, plannedFault)) func(*world, plannedFault) {
	return func(w *world, f plannedFault) {
		for f.Node = range nodes {
			undo(w, f)
		}
	}
}

func restartEmpty(count int) func(*world, plannedFault) error {
	return func(w *world, f plannedFault) error {
		for range count {
			w.node(f).RestartEmpty()
			f.Node++
		}
		return nil
	}
}

// restartRolling empties one node now, restartRollingOn the next two.
func restartRolling(w *world, f plannedFault) error {
	w.node(f).RestartEmpty()
	return nil
}

func restartRollingOn(w *world, f plannedFault) {
	for range nodes - 1 {
		f.Node++
		w.node(f).RestartEmpty()
	}
}

func flush(count int) func(*world, plannedFault) error {
	return func(w *world, f plannedFault) error {
		for range count {
			if err := w.redisDo(w.node(f), "FLUSHALL"); err != nil {
				return err
			}
			f.Node++
		}
		return nil
	}
}

func config(pairs ...any) func(*world, plannedFault) error {
	return func(w *world, f plannedFault) error {
		return w.redisDo(w.node(f), append([]any{"CONFIG", "SET"}, pairs...)...)
	}
}

func unconfig(w *world, f plannedFault) {
	_ = w.redisDo(w.node(f), "CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction", "requirepass", "")
}

// lockOut changes the password under everybody's feet.
func lockOut(w *world, f plannedFault) error {
	if err := w.redisDo(w.node(f), "CONFIG", "SET", "requirepass", wrongPassword); err != nil {
		return err
	}
	return w.redisDo(w.node(f), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

// demoteRedis makes a node the replica of nobody who is there.
func demoteRedis(w *world, f plannedFault) error {
	return w.redisDo(w.node(f), "REPLICAOF", "127.0.0.1", "1")
}

func promoteRedis(w *world, f plannedFault) { _ = w.redisDo(w.node(f), "REPLICAOF", "NO", "ONE") }

func cutRedis(w *world, f plannedFault) error { w.wires[f.Node%nodes].Cut(); return nil }
func healRedis(w *world, f plannedFault)      { w.wires[f.Node%nodes].Heal() }

func holdRedis(way locktest.Way) func(*world, plannedFault) error {
	return func(w *world, f plannedFault) error {
		w.wires[f.Node%nodes].Hold(way)
		return nil
	}
}

func killPostgres(w *world, _ plannedFault) error {
	if !w.down {
		w.postgres.Kill()
		w.down = true
	}
	return nil
}

func pausePostgres(w *world, _ plannedFault) error {
	if !w.down {
		w.postgres.Pause()
	}
	return nil
}

func resumePostgres(w *world, _ plannedFault) {
	if !w.down {
		w.postgres.Resume()
	}
}

// restartPostgres is pg_ctl restart -m immediate: what was committed is there.
func restartPostgres(w *world, _ plannedFault) error {
	if !w.down {
		w.postgres.Kill()
		w.postgres.Start()
	}
	return nil
}

// lockRow is a person with an open transaction on all lease rows.
func lockRow(w *world, _ plannedFault) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "BEGIN; SET LOCAL lock_timeout = '100ms'; SELECT 1 FROM lockrun.lease FOR UPDATE"); err != nil {
		_ = c.Close(ctx)
		return err
	}
	w.releaseOperator()
	w.operator = c
	return nil
}

func cutPostgres(w *world, _ plannedFault) error { w.wire.Cut(); return nil }
func healPostgres(w *world, _ plannedFault)      { w.wire.Heal() }

func holdPostgres(way locktest.Way) func(*world, plannedFault) error {
	return func(w *world, _ plannedFault) error {
		w.wire.Hold(way)
		return nil
	}
}

func lose(mark string, loss locktest.Loss) func(*world, plannedFault) error {
	return func(w *world, f plannedFault) error {
		w.wire.Lose(mark, loss, cmp.Or(f.Times, 2))
		return nil
	}
}

func restartPooler(w *world, _ plannedFault) error {
	w.renewPooler()
	return nil
}

func pausePooler(w *world, _ plannedFault) error { w.pooler.Pause(); return nil }
func resumePooler(w *world, _ plannedFault)      { w.pooler.Resume() }

// fillDisk makes every write in the state directories fail. As root it is a file
// system without room; a user who may not mount gets files in their place.
func fillDisk(w *world, _ plannedFault) error {
	for host := range hosts {
		dir := w.stateDir(host)
		if syscall.Mount("chaos", dir, "tmpfs", 0, "size=4k,nr_inodes=1,mode=0700") == nil {
			continue
		}
		if err := errors.Join(os.Rename(dir, dir+aside), os.WriteFile(dir, nil, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

const aside = ".aside"

func emptyDisk(w *world, _ plannedFault) {
	for host := range hosts {
		dir := w.stateDir(host)
		if _, err := os.Stat(dir + aside); err == nil {
			w.must(errors.Join(os.Remove(dir), os.Rename(dir+aside, dir)))
		} else {
			_ = syscall.Unmount(dir, syscall.MNT_DETACH) // another fault was in the way of this one
		}
	}
}
