package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"lockrun/locks"
)

const (
	// checkCall is how long a node may take for one answer to Examine.
	checkCall = 2 * time.Second
	// checkBound is what all checks of all nodes take together at most, and
	// cleanBound what it takes to remove the keys again.
	checkBound = 4 * time.Second
	cleanBound = 750 * time.Millisecond
	// probeLife ends the keys of Examine when it can't delete them.
	probeLife = 15 * time.Second
)

// patient is a node that is examined.
type patient struct {
	node   *node
	target target
	timing locks.Timing
	probe  string // the made-up job whose lock all patients ask for
	index  int
	found  locks.Findings

	reached bool
	runID   string // of the server process; "" = unknown
	rival   string // the value of the patient that has the probe's lock here, if it isn't ours
}

// Examine checks every node: that it can be reached, is an independent master,
// grants all the rights that a run needs, and keeps what it was told. It
// changes nothing but keys of a job name that nobody has, which it deletes. All
// nodes are examined at once; one that hangs costs no more than five seconds.
//
// An address that is listed twice is a finding here. The error is an
// *[OptionError].
func Examine(ctx context.Context, o Options) ([]locks.Finding, error) {
	targets, err := o.parse()
	if err != nil {
		return nil, err
	}
	conf, err := o.tlsConfig(targets)
	if err != nil {
		return nil, err
	}
	debug := o.Debug
	if debug == nil {
		debug = func(string) {}
	}
	libraryDebug.Store(&debug)
	probe := "lockrun.doctor." + uuid.NewString()
	patients := make([]*patient, len(targets))
	for i, t := range targets {
		client := newClient(t.options(conf, checkCall))
		defer func() { _ = client.Close() }()
		patients[i] = &patient{
			node: &node{name: t.name, password: t.password, client: client}, target: t,
			timing: o.Timing, probe: probe, index: i, found: locks.Findings{Where: t.name},
		}
	}
	examineAll(ctx, patients)
	clean(ctx, patients)

	findings := countNodes(len(patients))
	for i, p := range patients {
		if p.reached {
			p.distinct(patients[:i])
		} else if first := sameAddress(p, patients[:i]); first != nil {
			p.sameServer(first)
		}
		findings = append(findings, p.found.List...)
	}
	return findings, nil
}

// examineAll replaces each patient by what its examination has made of it, or
// leaves it with the finding that it took too long.
func examineAll(ctx context.Context, patients []*patient) {
	ctx, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	done := make(chan *patient, len(patients))
	for _, p := range patients {
		examined := *p // the original stays when the examination hangs
		go func() {
			if err := examined.examine(ctx); err != nil {
				cause, _ := examined.node.explain(err)
				examined.found.Fail("redis reachable", "it answered at first, then: %s; see whether it hangs", cause)
			}
			done <- &examined
		}()
	}
	missing := map[int]bool{}
	for i := range patients {
		missing[i] = true
	}
	for len(missing) > 0 {
		select {
		case p := <-done:
			patients[p.index] = p
			delete(missing, p.index)
			continue
		case <-ctx.Done():
		}
		for i := range missing {
			patients[i].found.Fail("redis reachable", "no answer within %s; see whether it hangs, and what is between it and this host", checkBound)
		}
		return
	}
}

// clean deletes the probe's lock, once every patient has asked for it.
func clean(ctx context.Context, patients []*patient) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanBound)
	defer cancel()
	done := make(chan struct{}, len(patients))
	asked := 0
	for _, p := range patients {
		if !p.reached {
			continue
		}
		asked++
		go func() {
			var err error // or the key ends by itself
			defer func() { done <- struct{}{} }()
			defer recovered(&err)
			err = p.node.client.Del(ctx, lockKey(p.probe)).Err()
		}()
	}
	for range asked {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// countNodes judges how many nodes there are.
func countNodes(n int) []locks.Finding {
	f := &locks.Findings{}
	const check = "redis nodes"
	switch {
	case n == 1:
		f.Warn(check, "a single node: while it is away nothing starts; use three independent masters, or --quorum preferred")
	case n%2 == 0:
		f.Warn(check, "%d nodes: a majority is %d, so that they survive no more failures than %d would; add one or leave one out", n, n/2+1, n-1)
	default:
		f.OK(check, "%d nodes, %d may be away", n, (n-1)/2)
	}
	return f.List
}

// distinct compares a server with those that come before it.
func (p *patient) distinct(others []*patient) {
	for _, o := range others {
		same := o.target.key == p.target.key || p.rival != "" && p.rival == o.value() ||
			p.runID != "" && p.runID == o.runID
		// Both ask at the same time: either may have been the faster one.
		if same || o.rival != "" && o.rival == p.value() {
			p.sameServer(o)
			return
		}
	}
	p.found.OK("redis distinct", "no other entry is this server")
}

func (p *patient) sameServer(first *patient) {
	p.found.Fail("redis distinct", "--redis no. %d and no. %d (%s) are one server, which would have two votes; list each independent master once",
		p.index+1, first.index+1, first.target.name)
}

// sameAddress finds an earlier entry with the address of one that did not answer.
func sameAddress(p *patient, others []*patient) *patient {
	for _, o := range others {
		if o.target.key == p.target.key {
			return o
		}
	}
	return nil
}

// value is what this patient writes as the probe's lock.
func (p *patient) value() string { return fmt.Sprintf("doctor %d", p.index) }
