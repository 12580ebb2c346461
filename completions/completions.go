// Package completions holds the shell completions. They are static: they never
// run lockrun and never evaluate what was typed.
package completions

import _ "embed" // for the scripts

// The scripts, one for each shell.
var (
	//go:embed lockrun.bash
	Bash string
	//go:embed lockrun.zsh
	Zsh string
	//go:embed lockrun.fish
	Fish string
)
