package completions_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockrun/runner/app"
)

// dump is where zsh keeps what it finds out about its completions at the start,
// which takes it a second.
var dump string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "lockrun-completions")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		dump = filepath.Join(dir, "zcompdump")
		if out, err := exec.Command("zsh", "-f", "-c", "autoload -Uz compinit && compinit -u -d $0", dump).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "zsh: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// shells complete a line in the real shell: the words before the last one are
// complete, the last one is being typed. They give what is offered, sorted.
var shells = map[string]func(t *testing.T, words ...string) []string{
	"bash": func(t *testing.T, words ...string) []string { return inBash(t, "", words) },
	"bash with its library": func(t *testing.T, words ...string) []string {
		return inBash(t, "/usr/share/bash-completion/bash_completion", words)
	},
	"zsh": func(t *testing.T, words ...string) []string {
		out := filepath.Join(t.TempDir(), "offered")
		output(t, "zsh", "-f", "testdata/capture.zsh", absolute(t, "lockrun.zsh"), strings.Join(words, " "), out)
		text, err := os.ReadFile(out)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return offered(string(text))
	},
	"fish": func(t *testing.T, words ...string) []string {
		text := output(t, "fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", "lockrun.fish", strings.Join(words, " "))
		lines := strings.Split(text, "\n")
		for i, line := range lines { // a tab and the description follow
			lines[i], _, _ = strings.Cut(line, "\t")
		}
		return offered(strings.Join(lines, "\n"))
	},
}

func inBash(t *testing.T, library string, words []string) []string {
	t.Helper()
	args := append([]string{"--norc", "testdata/bash.bash", "lockrun.bash", library}, words...)
	return offered(output(t, "bash", args...))
}

// output runs a shell, which must be installed, in a home of its own.
func output(t *testing.T, shell string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, args...)
	home := t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=dumb", "LC_ALL=C.UTF-8",
		"XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home, "LOCKRUN_TEST_DUMP=" + dump,
	}
	var problems strings.Builder
	cmd.Stderr = &problems
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", shell, args, err, problems.String())
	}
	if problems.Len() > 0 {
		t.Errorf("%s %q complains:\n%s", shell, args, problems.String())
	}
	return string(text)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func offered(text string) []string {
	words := strings.Fields(text)
	slices.Sort(words)
	return slices.Compact(words)
}

func equal(t *testing.T, line string, got, want []string) {
	t.Helper()
	want = slices.Clone(want)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q offers %q, want %q", line, got, want)
	}
}

func TestOptions(t *testing.T) {
	for shell, complete := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			for _, c := range app.List().Commands {
				words := []string{"lockrun", "--"}
				if c.Name != "" {
					words = []string{"lockrun", c.Name, "--"}
				}
				got := complete(t, words...)
				var want []string
				for _, o := range c.Options {
					want = append(want, "--"+o.Name)
				}
				equal(t, strings.Join(words, " "), got, want)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	var want []string
	for _, c := range app.List().Commands[1:] {
		want = append(want, c.Name)
	}
	for shell, complete := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			equal(t, "lockrun", complete(t, "lockrun", ""), want)
		})
	}
}

func TestValues(t *testing.T) {
	dates := []string{"today", "yesterday", "this-hour", "last-hour", "this-week", "last-week", "this-month", "last-month"}
	tests := []struct {
		line string // one blank between words
		want []string
	}{
		{"lockrun --quorum ", []string{"required", "preferred"}},
		{"lockrun --name x --leftovers ", []string{"kill", "wait", "leave"}},
		{"lockrun --log-format j", []string{"json"}},
		{"lockrun --date ", append(slices.Clone(dates), "scheduled")},
		{"lockrun history --since ", dates},
		{"lockrun history --name x --missing ", []string{"day", "weekday", "hour", "week", "month"}},
		{"lockrun resolve --as ", []string{"succeeded", "failed", "rerun"}},
		{"lockrun completion ", []string{"bash", "zsh", "fish"}},
		{"lockrun --name status --quorum p", []string{"preferred"}}, // a value is no command
		{"lockrun -w 5m --quorum p", []string{"preferred"}},
		{"lockrun --postgres ", nil},
		{"lockrun --redis-ca testdata/capt", []string{"testdata/capture.zsh"}},
		{"lockrun --config testdata/capt", []string{"testdata/capture.zsh"}},
	}
	for shell, complete := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			for _, tt := range tests {
				got := complete(t, strings.Split(tt.line, " ")...)
				if shell == "zsh" && len(tt.want) == 1 && strings.HasPrefix(tt.want[0], "testdata/") {
					tt.want = []string{filepath.Base(tt.want[0])} // the directory is given apart
				}
				equal(t, tt.line, got, tt.want)
			}
		})
	}
}

// TestChild looks at what stands after the --: commands of the system, then what
// that command is followed by, and no word of lockrun's own.
func TestChild(t *testing.T) {
	for shell, complete := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if got := complete(t, "lockrun", "--name", "x", "--", "mkfif"); !slices.Contains(got, "mkfifo") {
				t.Errorf("mkfif offers %q, want mkfifo", got)
			}
			for _, words := range [][]string{
				{"lockrun", "--name", "x", "--", "relea"},
				{"lockrun", "--name", "x", "--", "release", "--"},
				{"lockrun", "--", "nothing-of-that-name", "--quorum", ""},
			} {
				got := complete(t, words...)
				for _, own := range []string{"release", "--name", "required", "preferred"} {
					if slices.Contains(got, own) {
						t.Errorf("%q offers lockrun's own %q", words, own)
					}
				}
			}
		})
	}
}

// TestNothingIsRun types words that do something when they are evaluated, and
// puts a lockrun on the path that must not be called.
func TestNothingIsRun(t *testing.T) {
	for shell, complete := range shells {
		t.Run(shell, func(t *testing.T) {
			dir := t.TempDir()
			mark := filepath.Join(dir, "mark")
			if err := os.WriteFile(filepath.Join(dir, "lockrun"), []byte("#!/bin/sh\n: >"+mark+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			for _, words := range [][]string{
				{"lockrun", ""},
				{"lockrun", "--name", ""},
				{"lockrun", "--name", "$(touch${IFS}" + mark + ")", "--quorum", ""},
				{"lockrun", "--date", "`touch${IFS}" + mark + "`"},
				{"lockrun", "--name", "x", "--", "$(touch${IFS}" + mark + ")", ""},
				{"lockrun", "$(touch${IFS}" + mark + ")", "--"},
			} {
				complete(t, words...)
				if _, err := os.Stat(mark); err == nil {
					t.Fatalf("completing %q ran something", words)
				}
			}
		})
	}
}
