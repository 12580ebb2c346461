//go:build linux

package chaos

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// record: every child has an attempt, and every attempt and guard row agrees
// with what happened, once the outboxes were delivered.
func (j *judging) record() {
	for n := range j.Children {
		c := &j.Children[n]
		a := j.attempts[c.RunID]
		if a == nil {
			j.blame(ruleRecord, "%s is in no attempt", c)
			continue
		}
		if a.Name != c.Name || a.Date != c.Date || a.Token != c.Token || a.Invocation != c.Invocation {
			j.blame(ruleRecord, "%s is on record as %+v", c, *a)
		}
	}
	for n := range j.Attempts {
		a := &j.Attempts[n]
		i := j.invocations[a.Invocation]
		if i == nil {
			j.blame(ruleRecord, "nobody made the attempt %+v", *a)
			continue
		}
		if c := j.childOfRun[a.RunID]; !j.agrees(a, i, c) {
			j.blame(ruleRecord, "the attempt %+v; %s; %s\n%s", *a, i, describe(c), i.Log)
		}
	}
	for _, d := range j.Dates {
		j.guardRow(d)
	}
	for n := range j.Invocations {
		j.successOnRecord(&j.Invocations[n])
	}
}

func describe(c *child) string {
	if c == nil {
		return "it had no child"
	}
	if c.End == nil {
		return c.String() + ", cut short"
	}
	return c.String() + ", " + c.End.String()
}

// agrees tells whether an attempt says what happened.
func (j *judging) agrees(a *attempt, i *invocation, c *child) bool {
	// Who was killed, or could not even use the outbox, left the attempt open.
	silent := i.Harm == harmKillLockrun && i.End.Signal == int(syscall.SIGKILL) || i.End.Hung || i.Unkept
	switch a.Outcome {
	case "running", "unknown":
		return silent
	case "not_started":
		return c == nil
	case "succeeded":
		return c != nil && c.End != nil && *c.End == ending{} && (silent || i.End.Code == 0 || i.End.Code == exitUnrecorded)
	case "failed":
		return failedSo(a, i, c)
	case "lost":
		return silent || i.End.Code == exitLost
	case "timeout":
		return i.Limited && (silent || i.End.Code == exitTimeout)
	}
	return false
}

// failedSo tells whether the child failed the way that is on record.
func failedSo(a *attempt, i *invocation, c *child) bool {
	if i.Harm == harmTermLockrun && a.Signal == "SIGTERM" {
		return true // maybe before the child's first word
	}
	if c == nil || c.End == nil {
		return false
	}
	if c.End.Signal != 0 {
		return a.Signal == unix.SignalName(syscall.Signal(c.End.Signal)) && a.Code == -1
	}
	return c.End.Code != 0 && a.Code == c.End.Code
}

// guardRow: the date's state is that of the attempt which it points to.
func (j *judging) guardRow(d date) {
	a := j.attempts[d.RunID]
	if a == nil || a.Name != d.Name || a.Date != d.Date {
		j.blame(ruleRecord, "the date %+v points to no attempt of it", d)
		return
	}
	want := map[string]string{
		"succeeded": "succeeded", "failed": "failed", "lost": "failed", "timeout": "failed", "running": "running", "unknown": "running",
	}[a.Outcome]
	if i := j.invocations[a.Invocation]; a.Outcome == "lost" && i != nil && i.Unproved {
		want = "running" // for a person to look at
	}
	if d.State != want {
		j.blame(ruleRecord, "the date %+v, its attempt is %s", d, a.Outcome)
	}
}

// successOnRecord: who exits with 0 has left a date that is done, and who could
// not store it has kept it until it was delivered.
func (j *judging) successOnRecord(i *invocation) {
	c := j.childOf[i.ID]
	if i.Date == "" || i.End.Signal != 0 || i.End.Hung || i.Unkept || c == nil && i.End.Code != 0 || c != nil && i.End.Code != 0 && i.End.Code != exitUnrecorded {
		return
	}
	for _, d := range j.Dates {
		if d.Name == i.Name && d.Date == i.Date && d.State == "succeeded" {
			return
		}
	}
	if c != nil && j.startedAfter(c, i) {
		return // run again before it was delivered, or told, with --rerun
	}
	j.blame(ruleRecord, "%s, but its date is not on record as done", i)
}

func (j *judging) startedAfter(c *child, i *invocation) bool {
	for _, o := range j.byName[c.Name] {
		if o.Date == c.Date && o.Start > c.Last && (i.End.Code == exitUnrecorded || j.taken(o) < i.Ended) {
			return true
		}
	}
	return false
}
