package app

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// kind is what an option takes.
type kind int

const (
	takesValue kind = iota
	takesNothing
	takesValues // may be given several times
)

// option describes one option of the command line. The table of them is the
// one place that names and environment variables come from.
type option struct {
	name  string // long, without dashes
	short string // one letter, "" = none
	env   string // "" = none
	kind  kind
}

// The options of a run, in the order of the help text.
var runOptions = []option{
	{name: "name"},
	{name: "date"},
	{name: "tz", env: "LOCKRUN_TZ"},
	{name: "day-starts", env: "LOCKRUN_DAY_STARTS"},
	{name: "redis", env: "LOCKRUN_REDIS", kind: takesValues},
	{name: "postgres", env: "LOCKRUN_POSTGRES"},
	{name: "local", env: "LOCKRUN_LOCAL", kind: takesNothing},
	{name: "state-dir", env: "LOCKRUN_STATE_DIR"},
	{name: "quorum", env: "LOCKRUN_QUORUM"},
	{name: "ttl", env: "LOCKRUN_TTL"},
	{name: "kill-after", env: "LOCKRUN_KILL_AFTER"},
	{name: "leftovers", env: "LOCKRUN_LEFTOVERS"},
	{name: "wait", short: "w", env: "LOCKRUN_WAIT"},
	{name: "nonblock", short: "n", kind: takesNothing},
	{name: "max-runtime", env: "LOCKRUN_MAX_RUNTIME"},
	{name: "at-least", env: "LOCKRUN_AT_LEAST"},
	{name: "rerun", env: "LOCKRUN_RERUN"},
	{name: "conflict-exit-code", short: "E", env: "LOCKRUN_CONFLICT_EXIT_CODE"},
	{name: "done-exit-code", env: "LOCKRUN_DONE_EXIT_CODE"},
	{name: "holder", env: "LOCKRUN_HOLDER"},
	{name: "export-pgoptions", env: "LOCKRUN_EXPORT_PGOPTIONS", kind: takesNothing},
	{name: "redis-ca", env: "LOCKRUN_REDIS_CA"},
	{name: "redis-cert", env: "LOCKRUN_REDIS_CERT"},
	{name: "redis-key", env: "LOCKRUN_REDIS_KEY"},
	{name: "quiet", short: "q", kind: takesNothing},
	{name: "verbose", short: "v", kind: takesNothing},
	{name: "log-format", env: "LOCKRUN_LOG_FORMAT"},
	{name: "config", env: "LOCKRUN_CONFIG"},
	{name: "version", short: "V", kind: takesNothing},
	{name: "help", short: "h", kind: takesNothing},
}

// The options of the other commands, besides those that they share with a run.
var commandOptions = []option{
	{name: "print", kind: takesNothing},
	{name: "json", kind: takesNothing},
	{name: "since"},
	{name: "until"},
	{name: "missing"},
	{name: "as"},
	{name: "reason"},
	{name: "force", kind: takesNothing},
	{name: "outbox", kind: takesNothing},
}

// allOptions are the options of every command.
var allOptions = slices.Concat(runOptions, commandOptions)

// logEnv has no option of its own: -q and -v stand for two of its words.
const logEnv = "LOCKRUN_LOG"

// pick returns the options with the given names, for a command.
func pick(names ...string) []option {
	var picked []option
	for _, n := range names {
		for _, o := range allOptions {
			if o.name == n {
				picked = append(picked, o)
			}
		}
	}
	return picked
}

// source is where a setting comes from. A higher one is stronger.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnv
	fromFlag
)

// settings are the values of a command's options.
type settings struct {
	options []option
	given   map[string][]string // by name, from the command line
	env     map[string]string
	file    configFile
	command *command // nil for a run
}

// flagValue collects what the command line says for one option. It never
// refuses, because the flag library would put the refused value, a password
// perhaps, into its message.
type flagValue struct {
	s *settings
	o option
}

func (v *flagValue) Set(text string) error {
	v.s.given[v.o.name] = append(v.s.given[v.o.name], text)
	return nil
}
func (v *flagValue) String() string   { return "" }
func (v *flagValue) IsBoolFlag() bool { return v.o.kind == takesNothing }

func newSettings(options []option, env map[string]string) *settings {
	return &settings{options: options, given: map[string][]string{}, env: env}
}

// parse reads options up to the first word that is none, and returns that and
// the words after it.
//
// Of the flag library only the flags are used. Its App can also write help, from
// templates that call methods by their names; then the linker has to keep every
// method of every type in the program, which makes it a third larger.
func (s *settings) parse(args []string) (words []string, err error) {
	set := flag.NewFlagSet("lockrun", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range s.flags() {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	if err := set.Parse(args); err != nil {
		return nil, flagError(err, s)
	}
	return set.Args(), nil
}

// flags gives the options to the flag library. A short name is a flag of its
// own there: as an alias the library would set the value twice.
func (s *settings) flags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range s.options {
		flags = append(flags, &cli.GenericFlag{Name: o.name, Value: &flagValue{s, o}})
		if o.short != "" {
			flags = append(flags, &cli.GenericFlag{Name: o.short, Value: &flagValue{s, o}})
		}
	}
	return flags
}

// check refuses options that were given twice.
func (s *settings) check() error {
	for _, o := range s.options {
		if o.kind != takesValues && len(s.given[o.name]) > 1 {
			return usagef("--%s is given twice", o.name)
		}
	}
	return nil
}

// values returns what the strongest source says for an option. An empty
// environment variable counts as unset.
func (s *settings) values(name string) ([]string, source) {
	if v := s.given[name]; len(v) > 0 {
		return v, fromFlag
	}
	for _, o := range s.options {
		if o.name != name || o.env == "" || s.env[o.env] == "" {
			continue
		}
		if o.kind == takesValues {
			return strings.Fields(s.env[o.env]), fromEnv
		}
		return []string{s.env[o.env]}, fromEnv
	}
	if v := s.file.values[name]; len(v) > 0 {
		return v, fromFile
	}
	return nil, fromDefault
}

// text returns the value of a scalar option, or fallback.
func (s *settings) text(name, fallback string) (string, source) {
	if v, from := s.values(name); from != fromDefault && len(v) > 0 {
		return v[0], from
	}
	return fallback, fromDefault
}

// where names the source of a setting for a message: the flag or the variable.
func (s *settings) where(name string) string {
	switch _, from := s.values(name); from {
	case fromFile:
		return name + " in " + s.file.path
	case fromEnv:
		for _, o := range s.options {
			if o.name == name {
				return o.env
			}
		}
	}
	return "--" + name
}

func (s *settings) bool(name string) (bool, error) {
	text, from := s.text(name, "")
	if from == fromDefault {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, usagef("%s: %q is neither 1 nor 0", s.where(name), text)
	}
	return on, nil
}

// duration reads a Go duration or a plain number of seconds.
func (s *settings) duration(name string, fallback time.Duration) (time.Duration, error) {
	text, from := s.text(name, "")
	if from == fromDefault {
		return fallback, nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return 0, usagef("%s: %w", s.where(name), err)
	}
	return d, nil
}

// maxDuration keeps every sum of durations within what a time.Duration holds.
const maxDuration = 10 * 365 * 24 * time.Hour

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, numErr := strconv.ParseFloat(text, 64); numErr == nil && isPlainNumber(text) {
		if seconds > maxDuration.Seconds() {
			return 0, fmt.Errorf("%q is longer than ten years", text)
		}
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no duration: write 90s, 5m, 1h30m, or seconds", text)
	case d < 0:
		return 0, fmt.Errorf("%q is negative", text)
	case d > maxDuration:
		return 0, fmt.Errorf("%q is longer than ten years", text)
	}
	return d, nil
}

// isPlainNumber keeps out the spellings that only ParseFloat knows, such as inf
// and 0x1p4.
func isPlainNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789.") == "" && strings.Trim(text, ".") == text
}

// exitCode reads the number of an exit code.
func (s *settings) exitCode(name string, fallback int) (int, error) {
	text, from := s.text(name, "")
	if from == fromDefault {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 255 {
		return 0, usagef("%s: %q is no exit code from 0 to 255", s.where(name), text)
	}
	return n, nil
}

// word reads one of a list of words.
func (s *settings) word(name, fallback string, words ...string) (string, error) {
	text, _ := s.text(name, fallback)
	for _, w := range words {
		if w == text {
			return text, nil
		}
	}
	known := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	return "", usagef("%s: %q is none of %s", s.where(name), text, strings.Join(known, ", "))
}
