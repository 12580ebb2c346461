// Package app is the command line: options, their sources, the wiring of a run,
// and every word to the user. It is the only package that knows the flag
// library and opens connections.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

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
	if len(argv) > 0 && argv[0] == supervise.GuardianArg0 {
		return supervise.GuardianMain()
	}
	in := &invocation{
		env: environ(), stdout: stdout,
		started: locks.SystemClock{}.Now(), startedWall: time.Now(),
	}
	in.log = &log{w: stderr, level: runner.Warn}
	in.log.setUp(in.env)
	if err := in.dispatch(argv); err != nil {
		e := eventOf(err)
		in.log.take(e)
		return *e.ExitCode
	}
	if sig := in.result.Signal; sig != 0 {
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

// splitArgs cuts at the first "--". The flag library never sees the child's
// words: it would take a child called help or status for its own command.
func splitArgs(argv []string) (own, command []string, cut bool) {
	i := slices.Index(argv, "--")
	if i < 0 {
		return argv, nil, false
	}
	return argv[:i:i], argv[i+1:], true
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
	a := &cli.App{
		Name: "lockrun", Flags: root.flags(),
		HideHelp: true, HideHelpCommand: true, HideVersion: true,
		Writer: io.Discard, ErrWriter: io.Discard,
		ExitErrHandler: func(*cli.Context, error) {}, // one place ends the process
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return flagError(err, runOptions) },
		Action:         func(c *cli.Context) error { return in.root(root, c.Args().Slice()) },
	}
	if !in.hasCommand {
		for _, c := range in.commands() {
			a.Commands = append(a.Commands, c.cli(in))
		}
	}
	return a.RunContext(context.Background(), append([]string{"lockrun"}, splitShort(own[min(1, len(own)):])...))
}

// cli makes the flag library's form of a command.
func (c *command) cli(in *invocation) *cli.Command {
	s := newSettings(append(c.options, pick("help")...), in.env)
	return &cli.Command{
		Name: c.name, Flags: s.flags(), HideHelp: true, HideHelpCommand: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return flagError(err, s.options) },
		Action: func(x *cli.Context) error {
			if err := c.readWord(s, x.Args().Slice()); err != nil {
				return err
			}
			if err := s.check(); err != nil {
				return err
			}
			if help, _ := s.bool("help"); help {
				return in.print(c.help)
			}
			if err := s.readFile(); err != nil {
				return err
			}
			return c.run(s)
		},
	}
}

// root is a run, or a question about one.
func (in *invocation) root(s *settings, words []string) error {
	if err := s.check(); err != nil {
		return err
	}
	if help, err := s.bool("help"); err != nil || help {
		return errors.Join(err, in.print(helpText))
	}
	switch {
	case in.hasCommand && len(words) > 0:
		return usagef("%s stands before the --: options come before it, the command after it", s.stray(words[0]))
	case len(words) > 0 && words[0] == "help":
		return in.print(helpText)
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
func flagError(err error, options []option) error {
	text := err.Error()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		name, _, _ = strings.Cut(name, "=")
		if near := nearest(name[:min(len(name), maxOptionName)], options); near != "" && plainKey.MatchString(name) {
			return usagef("unknown option %q, did you mean --%s?", dashed(name), near)
		}
		if !plainKey.MatchString(name) {
			return usagef("unknown option; see lockrun --help") // with a value glued to it, perhaps
		}
		return usagef("unknown option %q; see lockrun --help", dashed(name))
	}
	if name, found := strings.CutPrefix(text, "flag needs an argument: -"); found {
		return usagef("%s needs a value", dashed(name))
	}
	// What is left ("bad flag syntax") quotes a word that may hold a secret.
	return usagef("an option is malformed; see lockrun --help")
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

// splitShort takes glued short options apart, as getopt would: -nq, -w10. A
// single dash before a long name stays: the flag library knows that form.
func splitShort(args []string) []string {
	known := map[byte]option{}
	long := map[string]bool{}
	for _, o := range allOptions {
		long[o.name] = true
		if o.short != "" {
			known[o.short[0]] = o
		}
	}
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if len(arg) < 3 || arg[0] != '-' || arg[1] == '-' || long[name] {
			out = append(out, arg)
			// The value of an option must not be taken for one.
			if o, ok := valueOption(arg, known); ok && o.kind != takesNothing && i+1 < len(args) {
				i++
				out = append(out, args[i])
			}
			continue
		}
		out = append(out, takeApart(arg, known)...)
	}
	return out
}

// valueOption finds the option whose value is the next word.
func valueOption(arg string, known map[byte]option) (option, bool) {
	name := strings.TrimLeft(arg, "-")
	if name == arg || strings.Contains(name, "=") {
		return option{}, false
	}
	for _, o := range allOptions {
		if o.name == name {
			return o, true
		}
	}
	if len(name) == 1 {
		o, ok := known[name[0]]
		return o, ok
	}
	return option{}, false
}

func takeApart(arg string, known map[byte]option) []string {
	var out []string
	for i := 1; i < len(arg); i++ {
		o, ok := known[arg[i]]
		if !ok {
			return []string{arg} // the flag library names what is unknown
		}
		out = append(out, "-"+o.short)
		if o.kind != takesNothing {
			if rest := strings.TrimPrefix(arg[i+1:], "="); rest != "" {
				out = append(out, rest)
			}
			break
		}
	}
	return out
}

// nearest finds the option that a mistyped name was meant for.
func nearest(name string, options []option) string {
	best, limit := "", max(1, len(name)/3)+1
	for _, o := range options {
		if d := distance(name, o.name); d < limit {
			best, limit = o.name, d
		}
	}
	return best
}

// distance is the number of letters to insert, remove, replace, or swap with
// their neighbour.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
