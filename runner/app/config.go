package app

import (
	"errors"
	"strings"
	"time"
	"unicode"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/runner"
	"lockrun/runner/supervise"
)

// runConfig is a run as its options say it, checked. Nothing was touched to
// make it but the files that the options name.
type runConfig struct {
	name      string
	date      guard.DateSpec // a scheduled date is resolved already
	zone      *time.Location
	dayStarts time.Duration
	stores    stores
	preferred bool
	timing    locks.Timing
	leftovers supervise.Policy

	wait, maxRuntime, atLeast time.Duration
	rerun                     guard.Rerun
	heldCode, doneCode        int
	holder                    string
	exportRunID               bool // in the child's PGOPTIONS
}

// readConfig checks every option of a run.
func (in *invocation) readConfig(s *settings) (*runConfig, error) {
	c := &runConfig{}
	if len(in.command) == 0 || in.command[0] == "" {
		return nil, usagef("no command stands after the --")
	}
	for _, part := range []func(*settings) error{
		c.readName, in.dateReader(c), c.readTiming, c.readRest,
	} {
		if err := part(s); err != nil {
			return nil, err
		}
	}
	var err error
	if c.stores, err = readStores(s, in.env); err != nil {
		return nil, err
	}
	return c, c.readExport(s)
}

// readExport reads --export-pgoptions, which serves the fence in Postgres. A
// local run has none: asking for it there is refused, unless the wish comes from
// a weaker source than --local does and thus goes with the servers.
func (c *runConfig) readExport(s *settings) (err error) {
	if c.exportRunID, err = s.bool("export-pgoptions"); err != nil || !c.exportRunID || !c.stores.local {
		return err
	}
	_, from := s.values("export-pgoptions")
	if _, localFrom := s.values("local"); from >= localFrom {
		return usagef("%s has no meaning with %s: the fence looks for the run in Postgres", s.where("export-pgoptions"), s.where("local"))
	}
	c.exportRunID = false
	return nil
}

func (c *runConfig) readName(s *settings) error {
	name, from := s.text("name", "")
	switch {
	case from == fromDefault:
		return usagef("--name is missing: lockrun --name NAME [--date DATE] -- COMMAND")
	case !isName(name):
		return usagef("--name: %.200q is no name: letters, digits and . _ : / -, at most 128, the first a letter or digit", name)
	}
	c.name = name
	return nil
}

func (in *invocation) dateReader(c *runConfig) func(*settings) error {
	return func(s *settings) error {
		text, from := s.text("date", "")
		var err error
		if from != fromDefault {
			if c.date, err = guard.ParseDate(text); err != nil {
				return usagef("%s: %w", s.where("date"), err)
			}
		}
		// TZ matters to a word only: a job without one may have any TZ.
		c.zone, c.dayStarts, err = in.readWallClock(s, c.date.IsWord() || c.date.IsScheduled())
		if err != nil || !c.date.IsScheduled() {
			return err
		}
		at, err := guard.ScheduledInstant(in.lookup)
		if err == nil {
			c.date, err = guard.ParseDate(guard.ResolveScheduled(at, c.zone, c.dayStarts))
		}
		if err != nil {
			return usagef("%s: %w", s.where("date"), err)
		}
		return nil
	}
}

func (in *invocation) lookup(key string) (string, bool) { v, ok := in.env[key]; return v, ok }

// readWallClock reads --tz and --day-starts. Without --tz the zone is nil, unless
// it is needed.
func (in *invocation) readWallClock(s *settings, needed bool) (zone *time.Location, dayStarts time.Duration, err error) {
	if starts, from := s.text("day-starts", ""); from != fromDefault {
		if dayStarts, err = guard.ParseDayStart(starts); err != nil {
			return nil, 0, usagef("%s: %w", s.where("day-starts"), err)
		}
	}
	tz, from := s.text("tz", "")
	if from == fromFlag && tz == "" {
		return nil, 0, usagef("--tz is empty")
	}
	if tz == "" && !needed {
		return nil, dayStarts, nil
	}
	switch zone, err = guard.LoadZone(tz, in.lookup); {
	case err != nil && tz != "":
		return nil, 0, usagef("%s: %w", s.where("tz"), err)
	case err != nil:
		return nil, 0, usagef("%w", err)
	}
	return zone, dayStarts, nil
}

func (c *runConfig) readTiming(s *settings) error {
	ttl, err := s.duration("ttl", time.Minute)
	if err != nil {
		return err
	}
	killAfter, err := s.duration("kill-after", -1)
	if err != nil {
		return err
	}
	c.timing, err = locks.NewTiming(ttl, killAfter)
	var te *locks.TimingError
	if errors.As(err, &te) {
		return usagef("%s: %s", s.where(strings.TrimPrefix(te.Flag, "--")), te.Text)
	}
	return err
}

func (c *runConfig) readRest(s *settings) (err error) {
	read := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	read(func() (err error) { c.wait, err = s.duration("wait", 0); return })
	read(func() error {
		nonblock, err := s.bool("nonblock")
		if err != nil || !nonblock {
			return err
		}
		_, from := s.values("nonblock")
		switch _, waitFrom := s.values("wait"); {
		case waitFrom == from:
			return usagef("%s and %s exclude each other", s.where("wait"), s.where("nonblock"))
		case waitFrom < from:
			c.wait = 0
		}
		return nil
	})
	read(func() (err error) { c.maxRuntime, err = s.duration("max-runtime", 0); return })
	read(func() (err error) {
		c.atLeast, err = s.duration("at-least", 0)
		if err == nil && c.atLeast > guard.AbsurdAfter {
			err = usagef("%s: %s is longer than a week, after which nobody believes a lease", s.where("at-least"), c.atLeast)
		}
		return err
	})
	read(func() (err error) { c.heldCode, err = s.exitCode("conflict-exit-code", runner.ExitHeld); return })
	read(func() (err error) { c.doneCode, err = s.exitCode("done-exit-code", 0); return })
	read(func() error {
		word, err := s.word("quorum", "required", "required", "preferred")
		c.preferred = word == "preferred"
		return err
	})
	read(func() error {
		word, err := s.word("leftovers", "kill", "kill", "wait", "leave")
		if err == nil {
			c.leftovers, err = supervise.ParsePolicy(word)
		}
		return err
	})
	read(func() error { return c.readRerun(s) })
	read(func() error { return c.readHolder(s) })
	return err
}

func (c *runConfig) readRerun(s *settings) error {
	list, from := s.text("rerun", "")
	if from == fromDefault {
		return nil
	}
	for word := range strings.SplitSeq(list, ",") {
		switch word {
		case "failed":
			c.rerun.Failed = true
		case "unknown":
			c.rerun.Unknown = true
		case "succeeded":
			c.rerun.Succeeded = true
		default:
			return usagef("%s: %q is none of failed, unknown, succeeded (a comma between them)", s.where("rerun"), word)
		}
	}
	return nil
}

// maxHolder bounds the text that goes into every lock's value and row.
const maxHolder = 200

func (c *runConfig) readHolder(s *settings) error {
	holder, from := s.text("holder", hostName())
	switch {
	case from != fromDefault && strings.TrimSpace(holder) == "":
		return usagef("%s is empty", s.where("holder"))
	case len(holder) > maxHolder:
		return usagef("%s is longer than %d bytes", s.where("holder"), maxHolder)
	case strings.ContainsFunc(holder, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return usagef("%s: %q holds characters that can't be printed", s.where("holder"), holder)
	}
	c.holder = holder
	return nil
}
