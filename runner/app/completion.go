package app

import (
	"slices"
	"strings"

	"lockrun/completions"
)

const completionHelp = `lockrun completion prints the completion for a shell. It is static: completing never runs lockrun.

  lockrun completion bash > /usr/share/bash-completion/completions/lockrun
  lockrun completion zsh  > /usr/share/zsh/vendor-completions/_lockrun   (any directory of $fpath)
  lockrun completion fish > ~/.config/fish/completions/lockrun.fish

or for this shell alone: source <(lockrun completion bash)
`

func (in *invocation) completionCommand() *command {
	scripts := map[string]string{"bash": completions.Bash, "zsh": completions.Zsh, "fish": completions.Fish}
	c := &command{name: "completion", help: completionHelp, takes: []string{"bash", "zsh", "fish"}}
	c.run = func(*settings) error {
		if c.word == "" {
			return usagef("completion needs the name of a shell: %s", strings.Join(c.takes, ", "))
		}
		return in.print(scripts[c.word])
	}
	return c
}

// readWord takes the word that follows a command.
func (c *command) readWord(s *settings, words []string) error {
	switch {
	case len(words) == 0:
		return nil
	case c.takes == nil:
		return usagef("%s takes no further words, and here is %s", c.name, s.stray(words[0]))
	case !slices.Contains(c.takes, words[0]):
		return usagef("%s takes one of %s, and here is %s", c.name, strings.Join(c.takes, ", "), s.stray(words[0]))
	case len(words) > 1:
		return usagef("%s takes one word, and here is %s too", c.name, s.stray(words[1]))
	}
	c.word = words[0]
	return nil
}
