package blackbox

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

func init() {
	scriptCommands["rows"] = cmdRows
	scriptCommands["terminal"] = cmdTerminal
}

// rows KEY,KEY.. [LINE...] compares the JSON on stdout, an array of objects, with
// lines: one for each object, the values of the keys separated by "|". null is
// "-", a key that is not there fails.
func cmdRows(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 1, "rows KEY,KEY.. [LINE...]")
	var rows []map[string]any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	ts.Check(d.Decode(&rows))
	if rows == nil || d.More() {
		ts.Fatalf("stdout is no array, or more than one: %q", ts.ReadFile("stdout"))
	}
	var got []string
	for _, row := range rows {
		var values []string
		for key := range strings.SplitSeq(args[0], ",") {
			value, there := row[key]
			switch {
			case !there:
				ts.Fatalf("no key %q in %v", key, row)
			case value == nil:
				value = "-"
			}
			values = append(values, fmt.Sprint(value))
		}
		got = append(got, strings.Join(values, "|"))
	}
	if strings.Join(got, "\n") != strings.Join(args[1:], "\n") {
		ts.Fatalf("rows of %s:\n%s\nwant\n%s", args[0], strings.Join(got, "\n"), strings.Join(args[1:], "\n"))
	}
}

// terminal COMMAND... runs a command with a terminal as its standard output and
// leaves what came out there in the file "screen".
func cmdTerminal(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 1, "terminal COMMAND...")
	path, err := exec.LookPath(args[0])
	if err != nil {
		path = ts.MkAbs(args[0])
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(cmd.Env, scriptEnv(ts)...)
	screen, err := pty.Start(cmd)
	ts.Check(err)
	text, _ := io.ReadAll(screen) // ends with an error when the other side is closed
	_ = screen.Close()
	ts.Check(cmd.Wait())
	ts.Check(writeWhole(ts.MkAbs("screen"), string(text)))
}

// scriptEnv is the part of a script's environment that lockrun looks at.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "XDG_STATE_HOME", "TZ", "TERM", "NO_COLOR", "LOCKRUN_POSTGRES", "LOCKRUN_REDIS", "LOCKRUN_LOCAL"} {
		if v := ts.Getenv(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	return env
}
