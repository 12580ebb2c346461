package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // hosts and images without zone data

	"lockrun/locks"
)

const localtimeFile = "/etc/localtime"

// LoadZone gives the time zone of --tz or, when that is empty, of the process:
// of TZ as the C library reads it, or of the host when TZ is not set. What can't
// be loaded is an error and never UTC, which is what package time makes of it.
//
// tz is the IANA name of a zone. TZ may also begin with a colon or be the
// absolute path of a zone file; the C library's rules such as CET-1CEST are
// refused. An empty TZ is UTC, and so is a host that has no zone at all.
func LoadZone(tz string, env func(string) (string, bool)) (*time.Location, error) {
	return loadZone(tz, env, localtimeFile)
}

func loadZone(tz string, env func(string) (string, bool), localtime string) (*time.Location, error) {
	if tz != "" {
		return namedZone(tz, "")
	}
	tz, isSet := env("TZ")
	name := strings.TrimPrefix(tz, ":")
	switch {
	case !isSet:
		// A link that leads nowhere is there: somebody asked for a zone.
		if _, err := os.Lstat(localtime); errors.Is(err, fs.ErrNotExist) {
			return time.UTC, nil
		}
		loc, err := zoneFile("Local", localtime)
		if err != nil {
			return nil, fmt.Errorf("load the host's time zone from %s: %w; use --tz or TZ", localtime, err)
		}
		return loc, nil
	case name == "":
		return time.UTC, nil
	case strings.HasPrefix(name, "/"):
		loc, err := zoneFile(name, name)
		if err != nil {
			return nil, fmt.Errorf("load time zone %q of TZ: %w", tz, err)
		}
		return loc, nil
	}
	return namedZone(name, " of TZ")
}

// namedZone loads a zone of the IANA data: the host's, or else the built-in one.
// source ends the name in the error; the caller knows where --tz comes from.
func namedZone(name, source string) (*time.Location, error) {
	// For LoadLocation "Local" is package time's own view of TZ, silent UTC and all.
	if name != "Local" {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc, nil
		}
	}
	// LoadLocation's error repeats the name unquoted.
	return nil, fmt.Errorf("load time zone %q%s: there is no such zone, write an IANA name such as Europe/London, or UTC",
		name, source)
}

func zoneFile(name, path string) (*time.Location, error) {
	data, _, err := locks.ReadRegular(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the caller names the path
	}
	return time.LoadLocationFromTZData(name, data)
}

// wallClock is what a clock on the wall shows at t in t's zone, carried as a
// time in UTC so that calendar arithmetic on it meets no change of clocks.
func wallClock(t time.Time) time.Time {
	return t.UTC().Add(offset(t))
}

// offset is how far t's zone is ahead of UTC at t.
func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// changes gives, in order, the instants after from and before to at which the
// offset of from's zone changes.
func changes(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for at := from; ; {
			next := spanEnd(at)
			if next.IsZero() || !next.Before(to) {
				return
			}
			if offset(next) != offset(at) && !yield(next) {
				return
			}
			at = next
		}
	}
}

// spanEnd is an instant after t up to which the offset is that of t, zero for
// ever. It rests on the end that ZoneBounds gives and on that alone: where a rule
// has taken over from the table of changes, the start may lie before the last
// change of the table, with another offset.
func spanEnd(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if end.IsZero() || end.After(t) {
		return end
	}
	// By such a rule every year ends after 365 days, so that on the last day of a
	// leap year ZoneBounds gives an end that has passed. The rule's last offset
	// holds up to the new year in UTC.
	return time.Date(t.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).In(t.Location())
}
