package app

import (
	"slices"

	"lockrun/runner"
)

// Inventory is what a user of the command line can rely on, for what describes
// it elsewhere: man pages and completions.
type Inventory struct {
	Commands  []CommandInfo // the first, without a name, is a run
	Variables []string      // read from the environment, also those of options
	Exported  []string      // the variables that the child gets
	ExitCodes []int         // lockrun's own, ascending
	Events    []string      // values of the key event of JSON logs
}

// CommandInfo describes one command of lockrun.
type CommandInfo struct {
	Name    string
	Help    string // what --help prints
	Words   []string
	Options []OptionInfo
}

// OptionInfo describes one option of a command.
type OptionInfo struct {
	Name  string // long, without dashes
	Short string // one letter, "" = none
	Env   string // "" = none
	Value bool   // takes a value
}

// List returns the inventory of this program.
func List() Inventory {
	list := Inventory{
		Commands:  []CommandInfo{{Help: helpText, Options: optionInfos(runOptions)}},
		Variables: []string{logEnv, "LOCKRUN_SCHEDULED_AT", "LOCKRUN_JOB_NAME"},
		Exported:  slices.Clone(runner.ChildVariables),
		ExitCodes: []int{
			0, exitNo, runner.ExitUsage, runner.ExitUnavailable, runner.ExitLost, runner.ExitSystem, runner.ExitUnrecorded,
			runner.ExitHeld, runner.ExitRefused, runner.ExitConfig, runner.ExitTimeout, runner.ExitNotExec, runner.ExitNotFound,
		},
	}
	for _, kind := range []runner.EventKind{
		runner.EventAcquired, runner.EventHeld, runner.EventDone, runner.EventRefused, runner.EventStarted,
		runner.EventRenewFailed, runner.EventQuorumLost, runner.EventLost, runner.EventTermSent, runner.EventKillSent,
		runner.EventEnded, runner.EventRecorded, runner.EventUnrecorded, runner.EventReleased,
		runner.EventUnavailable, runner.EventUsage, runner.EventConfig,
	} {
		list.Events = append(list.Events, string(kind))
	}
	for _, c := range (&invocation{}).commands() {
		options := append(slices.Clone(c.options), pick("help")...)
		list.Commands = append(list.Commands, CommandInfo{Name: c.name, Help: c.help, Words: c.takes, Options: optionInfos(options)})
	}
	for _, c := range list.Commands {
		for _, o := range c.Options {
			if o.Env != "" {
				list.Variables = append(list.Variables, o.Env)
			}
		}
	}
	slices.Sort(list.Variables)
	list.Variables = slices.Compact(list.Variables)
	return list
}

func optionInfos(options []option) []OptionInfo {
	infos := make([]OptionInfo, 0, len(options))
	for _, o := range options {
		infos = append(infos, OptionInfo{Name: o.name, Short: o.short, Env: o.env, Value: o.kind != takesNothing})
	}
	return infos
}
