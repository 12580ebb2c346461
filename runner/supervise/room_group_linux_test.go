package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRoomInGroups(t *testing.T) {
	t.Parallel()
	const few, enough = threadsNeeded + 4, threadsNeeded + 5
	for name, c := range map[string]struct {
		membership string
		files      map[string]any // pids.max; pids.current is 5
		full       string
	}{
		"version 2":                 {"0::/a/b\n", map[string]any{"a/b": few}, "/a/b"},
		"version 2, room":           {"0::/a/b\n", map[string]any{"a/b": enough}, ""},
		"version 2, no limit":       {"0::/a/b\n", map[string]any{"a/b": "max"}, ""},
		"a group above":             {"0::/a/b\n", map[string]any{"a/b": "max", "a": few}, "/a"},
		"a container's own root":    {"0::/\n", map[string]any{".": few}, "/"},
		"a path that is not there":  {"0::/kubepods/pod1\n", map[string]any{".": few}, "/"},
		"version 1":                 {"9:name=systemd:/\n8:pids:/x\n7:cpu,cpuacct:/y\n", map[string]any{"pids/x": few}, "/x"},
		"version 1, joint mount":    {"8:cpu,pids:/x\n", map[string]any{"cpu,pids/x": few}, "/x"},
		"version 1, room":           {"8:pids:/x\n", map[string]any{"pids/x": enough}, ""},
		"another controller's path": {"7:cpu:/x\n", map[string]any{"cpu/x": few, "x": few}, ""},
		"a name with colons":        {"0::/a:b\n", map[string]any{"a:b": few}, "/a:b"},
		"nothing known":             {"", nil, ""},
		"garbage":                   {"0\n::\n:::::\n\n", map[string]any{"a": few}, ""},
		"no number":                 {"0::/a\n", map[string]any{"a": "-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for group, limit := range c.files {
				dir := filepath.Join(root, group)
				err := errors.Join(os.MkdirAll(dir, 0o700),
					os.WriteFile(filepath.Join(dir, "pids.max"), fmt.Appendln(nil, limit), 0o600),
					os.WriteFile(filepath.Join(dir, "pids.current"), []byte("5\n"), 0o600))
				if err != nil {
					t.Fatal(err)
				}
			}
			err := roomInGroups(root, c.membership)
			switch {
			case c.full == "" && err != nil:
				t.Error(err)
			case c.full != "" && (!errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), fmt.Sprintf("%q", c.full))):
				t.Errorf("got %v, want it to name the group %s", err, c.full)
			}
		})
	}
}

// TestFullGroup starts lockrun in a group with too little room: it says so, and
// the Go runtime does not crash.
func TestFullGroup(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{16, 24, 32, 40, 44} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir, ok := pidsGroup(t, limit)
			if !ok {
				t.Log("no cgroup with a pids limit can be made here, so nothing is tested")
				return
			}
			f := newFixture(t, "true")
			f.wrap("sh", "-c", fmt.Sprintf(`echo $$ > %s/cgroup.procs; exec "$@"`, dir), "sh")
			f.exits(71, f.run())
			f.gone()
			if told := f.err.String(); strings.Count(told, "\n") != 1 || !strings.Contains(told, "pids.max") {
				t.Errorf("it said %.500q", told)
			}
		})
	}
}
