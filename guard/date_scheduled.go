package guard

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// The variables that tell the time that the scheduler meant.
const (
	scheduledAtEnv = "LOCKRUN_SCHEDULED_AT"
	jobNameEnv     = "LOCKRUN_JOB_NAME"
)

// Years that a schedule can mean. A time outside is a slip: the zero time of
// some template, the seconds of an epoch for its minutes. Kubernetes counts in
// minutes since 2021, and a job that a person named eod-20260701 would be taken
// for the year 2008, hence the later bound for job names.
const (
	firstYear     = 2000
	firstNameYear = 2020
	lastYear      = 2199
)

var (
	// Package time takes more than RFC 3339 allows: an hour of one digit, a comma,
	// an offset of 24 hours.
	rfc3339 = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	})
	jobName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^.+-([1-9]\d{0,9})$`) })
)

// ScheduledInstant is the instant that the scheduler meant for this run, as the
// environment tells it: the RFC 3339 time of LOCKRUN_SCHEDULED_AT or else, in
// LOCKRUN_JOB_NAME, the name of a Kubernetes CronJob's job, which ends with the
// minutes since the epoch. An empty variable counts as unset. A value that can't
// be read is an error and never makes way for the other variable.
func ScheduledInstant(env func(string) (string, bool)) (time.Time, error) {
	if text, _ := env(scheduledAtEnv); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || !rfc3339().MatchString(text) || !inYears(t, firstYear) {
			return time.Time{}, fmt.Errorf("read %s %q: write an RFC 3339 time of the years %d to %d, such as 2026-07-01T23:30:00+07:00",
				scheduledAtEnv, text, firstYear, lastYear)
		}
		return t, nil
	}
	if text, _ := env(jobNameEnv); text != "" {
		if m := jobName().FindStringSubmatch(text); m != nil {
			minutes, err := strconv.ParseInt(m[1], 10, 64)
			if t := time.Unix(minutes*60, 0).UTC(); err == nil && inYears(t, firstNameYear) {
				return t, nil
			}
		}
		return time.Time{}, fmt.Errorf("read %s %q: the name of a CronJob's job ends with - and its scheduled time "+
			"in minutes since 1970, within the years %d to %d", jobNameEnv, text, firstNameYear, lastYear)
	}
	return time.Time{}, fmt.Errorf("resolve date %q: set %s to the scheduled time in RFC 3339 form, "+
		"or %s to the name of the Kubernetes CronJob's job", scheduled, scheduledAtEnv, jobNameEnv)
}

func inYears(t time.Time, first int) bool {
	year := t.UTC().Year()
	return first <= year && year <= lastYear
}

// ResolveScheduled gives the day of an instant from [ScheduledInstant], by the
// rule of "today" (see [DateSpec.At]).
func ResolveScheduled(t time.Time, loc *time.Location, dayStarts time.Duration) string {
	return day.text(wallClock(t.In(loc)).Add(-dayStarts))
}
