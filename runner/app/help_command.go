package app

import "strings"

// usage is the line of the command's help that shows how it is called.
func (c *command) usage() string {
	for line := range strings.Lines(c.help) {
		if line, found := strings.CutPrefix(line, "  lockrun "+c.name); found {
			return "lockrun " + c.name + strings.TrimRight(line, "\n")
		}
	}
	return "lockrun " + c.name + " --help"
}

// helpOf names what prints the help for these options.
func (s *settings) helpOf() string {
	if s.command == nil {
		return "lockrun --help"
	}
	return "lockrun " + s.command.name + " --help"
}

// helpFor is what "lockrun help" prints, with the word that may follow it.
func (in *invocation) helpFor(words []string) string {
	for _, c := range in.commands() {
		if len(words) == 1 && words[0] == c.name {
			return c.help
		}
	}
	return helpText
}
