//go:build linux

package chaos

import (
	"strings"
	"syscall"
	"time"
)

// What is done to a run's supervisors.
const (
	harmKillLockrun = "kill lockrun"
	harmStopLockrun = "stop lockrun"
	harmTermLockrun = "term lockrun"
	harmKillGuard   = "kill guardian"
	harmStopGuard   = "stop guardian"
)

// end: the exit code of every invocation agrees with what its child did.
func (j *judging) end(i *invocation) {
	c := j.childOf[i.ID]
	killed := i.Harm == harmKillLockrun && i.End.Signal == int(syscall.SIGKILL)
	switch {
	case i.End.Hung:
		j.blame(ruleExit, "%s did not end", i)
	case killed: // it could say nothing
	case c == nil:
		j.endWithoutChild(i)
	case c.End == nil:
		j.endOfCutShort(i, c)
	default:
		j.endOfEnded(i, c)
	}
	if i.Survives && i.End.Code == exitLost {
		j.blame(ruleLoss, "%s\n%s", i, i.Log)
	}
	if i.Calm && !i.End.Hung && (i.End.Signal != 0 || i.End.Code != 0 && i.End.Code != exitRefused) {
		j.blame(ruleNotReady, "%s\n%s", i, i.Log)
	}
}

// The exit codes of lockrun's own, from its manual.
const (
	exitUnavailable = 69
	exitLost        = 70
	exitSystem      = 71
	exitUnrecorded  = 74
	exitHeld        = 75
	exitRefused     = 77
	exitConfig      = 78
	exitTimeout     = 124
)

// endOfCutShort: a child that did not come to its end was ended by lockrun, or
// by the signal that lockrun was sent.
func (j *judging) endOfCutShort(i *invocation, c *child) {
	if i.End.Code == exitLost || i.Limited && i.End.Code == exitTimeout || i.Harm == harmTermLockrun && i.End.Signal == int(syscall.SIGTERM) {
		return
	}
	j.blame(ruleExit, "%s, but %s was cut short\n%s", i, c, i.Log)
}

// endOfEnded: the child's own end, unless the run was lost or not recorded.
func (j *judging) endOfEnded(i *invocation, c *child) {
	switch {
	case i.End == *c.End, i.End.Code == exitLost, i.Limited && i.End.Code == exitTimeout,
		*c.End == ending{} && i.End.Code == exitUnrecorded,
		i.Harm == harmTermLockrun && i.End.Signal == int(syscall.SIGTERM): // it came between the last word and the end
		return
	}
	j.blame(ruleExit, "%s, but %s ended with %q\n%s", i, c, c.End, i.Log)
}

// endWithoutChild: nothing was started, and the code says why.
func (j *judging) endWithoutChild(i *invocation) {
	switch {
	case i.End.Signal == int(syscall.SIGTERM) && i.Harm == harmTermLockrun,
		i.End.Code == exitUnavailable,
		i.End.Code == exitSystem && (i.Harm == harmKillGuard || i.Harm == harmStopGuard),
		// The child was forked and killed before its first word.
		(i.End.Code == exitLost || i.Limited && i.End.Code == exitTimeout) && j.mayHaveStarted(i):
	case i.End == ending{}:
		if !j.done(i) {
			j.blame(ruleRefusal, "%s says that the date is done, but no child of it has succeeded\n%s", i, i.Log)
		}
	case i.End.Code == exitHeld:
		if !j.held(i) {
			j.blame(ruleRefusal, "%s says that the name is held, but nobody was there\n%s", i, i.Log)
		}
	case i.End.Code == exitRefused:
		if !j.doubtful(i) {
			j.blame(ruleRefusal, "%s says that the date was tried, but nobody did\n%s", i, i.Log)
		}
	case i.End.Code == exitConfig && j.faulty(i, faultPassword):
	default:
		j.blame(ruleExit, "%s, but no child was seen\n%s", i, i.Log)
	}
}

// mayHaveStarted tells whether the record has a run of the invocation that was
// lost.
func (j *judging) mayHaveStarted(i *invocation) bool {
	for _, a := range j.Attempts {
		if a.Invocation == i.ID && (a.Outcome == "lost" || a.Outcome == "timeout" || a.Outcome == "running" || a.Outcome == "unknown") {
			return true
		}
	}
	return false
}

// done tells whether a child of that date had succeeded by then.
func (j *judging) done(i *invocation) bool {
	for _, c := range j.byName[i.Name] {
		if i.Date != "" && c.Date == i.Date && c.End != nil && *c.End == (ending{}) && c.Last <= i.Ended {
			return true
		}
	}
	return false
}

// held tells whether anybody else may have held the name: another invocation
// that was there, or that left its locks to expire; or a lock of an operator's.
func (j *judging) held(i *invocation) bool {
	for n := range j.Invocations {
		o := &j.Invocations[n]
		if o.ID != i.ID && o.Name == i.Name && o.Began <= i.Ended && i.Began <= o.Ended.add(j.TTL+time.Second) {
			return true
		}
	}
	return j.faulty(i, faultOperator)
}

// doubtful tells whether an earlier attempt of the date may have been there that
// is not known to have succeeded.
func (j *judging) doubtful(i *invocation) bool {
	for n := range j.Invocations {
		o := &j.Invocations[n]
		if o.ID == i.ID || o.Name != i.Name || o.Date != i.Date || o.Began > i.Ended {
			continue
		}
		c := j.childOf[o.ID]
		// Its child may have died before its first word.
		termed := o.Harm == harmTermLockrun && o.End.Signal == int(syscall.SIGTERM)
		if c != nil && o.End != (ending{}) || termed || c == nil && (o.Harm == harmKillLockrun || o.MayBeTaken || o.End.Code == exitLost || o.End.Code == exitTimeout) {
			return true
		}
		// It was there at the same time, and its own doors were not all open yet.
		if o.Ended >= i.Began && c != nil {
			return true
		}
	}
	return false
}

// faulty tells whether such a fault was there at about that time.
func (j *judging) faulty(i *invocation, kind string) bool {
	for _, f := range j.Faults {
		if strings.HasPrefix(f.What, kind) && f.overlaps(i.Began.add(-time.Second), i.Ended) {
			return true
		}
	}
	return false
}
