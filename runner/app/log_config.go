package app

import (
	"slices"

	"lockrun/runner"
)

// setUp takes what the environment says of the log, before any option is read,
// so that a usage error comes out in the right form. A fault in it is told by
// [log.configure].
func (l *log) setUp(env map[string]string) {
	l.json = env["LOCKRUN_LOG_FORMAT"] == "json"
	if i := slices.Index(levelNames, env[logEnv]); i >= 0 {
		l.level = runner.Level(i)
	}
}

// configure takes the options of the log. -q and -v are stronger than
// LOCKRUN_LOG.
func (l *log) configure(s *settings) error {
	format, err := s.word("log-format", "text", "text", "json")
	if err != nil {
		return err
	}
	l.json = format == "json"
	quiet, err := s.bool("quiet")
	if err != nil {
		return err
	}
	verbose, err := s.bool("verbose")
	if err != nil {
		return err
	}
	word := s.env[logEnv]
	level := slices.Index(levelNames, word)
	switch {
	case quiet && verbose:
		return usagef("--quiet and --verbose exclude each other")
	case quiet:
		l.level = runner.Error
	case verbose:
		l.level = max(runner.Info, l.level)
	case word != "" && level < 0:
		return usagef("%s: %q is none of error, warn, info, debug", logEnv, word)
	}
	return nil
}
