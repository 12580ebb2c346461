package supervise

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// groupsRoot is where the control groups are mounted.
const groupsRoot = "/sys/fs/cgroup"

// roomInGroups tells of a control group, or one above it, that holds too many
// processes already: of a container or a systemd unit, say. It binds root too.
// What can't be read limits nothing, as far as can be told.
func roomInGroups(root, membership string) error {
	for line := range strings.Lines(membership) {
		// "0::/path" in version 2; "8:pids:/path" in version 1, whose mounts are
		// named like the controllers.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount := root
		if fields[1] != "" {
			if !slices.Contains(strings.Split(fields[1], ","), "pids") {
				continue
			}
			mount = path.Join(root, fields[1])
		}
		for group := path.Join("/", fields[2]); ; group = path.Dir(group) {
			limit, limited := readCount(path.Join(mount, group, "pids.max"))
			used, known := readCount(path.Join(mount, group, "pids.current"))
			if limited && known && used+threadsNeeded > limit {
				return fmt.Errorf("the limit of processes of the control group %q (pids.max) is %d, it has %d already, and the supervision needs %d: %w",
					group, limit, used, threadsNeeded, syscall.EAGAIN)
			}
			if group == "/" {
				break
			}
		}
	}
	return nil
}

// readCount reads a number; "max" is none.
func readCount(file string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
