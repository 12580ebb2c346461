// Package app is the command line: options, their sources, the wiring of a run,
// and every word to the user. It is the only package that knows the flag
// library and opens connections.
package app

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"lockrun/locks"
	"lockrun/runner"
	"lockrun/runner/supervise"
)

// invocation is one call of the program.
type invocation struct {
	command     []string // what stands after "--"; nil without it
	hasCommand  bool     // "--" was there
	env         map[string]string
	stdout      io.Writer
	log         *log
	started     locks.Instant
	startedWall time.Time
	result      runner.Result
}

// Main runs the program and returns its exit code. It does not return when
// lockrun has to die of the signal that its child died of.
func Main(argv []string, stdout, stderr io.Writer) int {
	in := &invocation{
		env: environ(), stdout: stdout,
		started: locks.SystemClock{}.Now(), startedWall: time.Now(),
	}
	supervise.SurvivePipes()
	in.log = newLog(stderr)
	in.log.setUp(in.env)
	defer in.log.end()
	if err := in.dispatch(argv); err != nil {
		e := eventOf(err)
		in.log.take(e)
		return *e.ExitCode
	}
	if sig := in.result.Signal; sig != 0 {
		in.log.end()
		supervise.DieBySignal(sig) // comes back only as PID 1
	}
	return in.result.Shown()
}

func environ() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// commands are what lockrun does besides a run.
func (in *invocation) commands() []*command {
	return []*command{
		in.initCommand(), in.statusCommand(), in.historyCommand(), in.resolveCommand(), in.releaseCommand(),
		in.doctorCommand(), in.completionCommand(), in.versionCommand(),
	}
}

// command is a word of the command line with its own options.
type command struct {
	name    string
	help    string
	options []option
	takes   []string // the words of which one may follow; nil = none
	word    string   // the one that followed, "" = none did
	run     func(*settings) error
}

func (in *invocation) dispatch(argv []string) error {
	var own []string
	own, in.command, in.hasCommand = splitArgs(argv)
	root := newSettings(runOptions, in.env)
	words, err := root.parse(splitShort(own[min(1, len(own)):]))
	if err != nil {
		return err
	}
	if !in.hasCommand && len(words) > 0 {
		for _, c := range in.commands() {
			if c.name == words[0] {
				return in.runCommand(c, words[1:])
			}
		}
	}
	return in.root(root, words)
}

// runCommand does what a command of lockrun is for.
func (in *invocation) runCommand(c *command, args []string) error {
	s := newSettings(append(c.options, pick("help")...), in.env)
	s.command = c
	words, err := s.parse(args)
	if err != nil {
		return err
	}
	if err := c.readWord(s, words); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if help, err := s.bool("help"); err != nil {
		return err
	} else if help {
		return in.print(c.help)
	}
	if err := s.readFile(); err != nil {
		return err
	}
	return c.run(s)
}

// root is a run, or a question about one.
func (in *invocation) root(s *settings, words []string) error {
	if err := s.check(); err != nil {
		return err
	}
	help, err := s.bool("help")
	if err != nil {
		return err
	}
	asksVersion, err := s.bool("version")
	if err != nil {
		return err
	}
	switch {
	case help:
		return in.print(helpText)
	case asksVersion:
		return in.printVersion()
	case in.hasCommand && len(words) > 0:
		return usagef("%s stands before the --: options come before it, the command after it", s.stray(words[0]))
	case len(words) > 0 && words[0] == "help":
		return in.print(in.helpFor(words[1:]))
	case len(words) > 0:
		return usagef("%s is no command of lockrun; a command to run stands after --: lockrun --name NAME -- %s", s.stray(words[0]), s.strayCommand(words[0]))
	case !in.hasCommand:
		return usagef("nothing to run: lockrun --name NAME [--date DATE] [options] -- COMMAND [ARG...]; see lockrun --help")
	}
	if err := s.readFile(); err != nil {
		return err
	}
	return in.run(s)
}

func (in *invocation) print(text string) error {
	if _, err := io.WriteString(in.stdout, text); err != nil {
		return &exitError{kind: runner.EventUnavailable, code: runner.ExitUnrecorded, err: fmt.Errorf("write to standard output: %w", err)}
	}
	return nil
}

// flagError words what the flag library says about options.
func flagError(err error, s *settings) error {
	text, help := err.Error(), s.helpOf()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		name, _, _ = strings.Cut(name, "=")
		if near := nearest(name[:min(len(name), maxOptionName)], s.options); near != "" && isPlainKey(name) {
			return usagef("unknown option %q, did you mean --%s?", dashed(name), near)
		}
		if !isPlainKey(name) {
			return usagef("unknown option; see %s", help) // with a value glued to it, perhaps
		}
		return usagef("unknown option %q; see %s", dashed(name), help)
	}
	if name, found := strings.CutPrefix(text, "flag needs an argument: -"); found {
		return usagef("%s needs a value", dashed(name))
	}
	// What is left ("bad flag syntax") quotes a word that may hold a secret.
	return usagef("an option is malformed; see %s", help)
}

// maxOptionName bounds what is compared with the names of options.
const maxOptionName = 40

func dashed(name string) string {
	name = strings.TrimLeft(name, "-")
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
