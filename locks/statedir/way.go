package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lockrun/locks"
)

// maxLinks is how many symbolic links the kernel follows before it gives up.
const maxLinks = 40

// checkWay walks to a directory as the kernel does, as far as there is something,
// and refuses one that somebody else has put in the place of this one: with an
// empty record every date would run again. A symbolic link has to belong to root
// or to this user, and so has whatever lies in a directory that everybody can
// write to. It names the first of those that is not sticky, as /tmp is, where this
// could still be done: a container's only writable directory is often one, and
// nobody else is there. What a group or another owner can do is left to whoever
// made them.
func checkWay(dir string) (open string, err error) {
	whole, err := filepath.Abs(dir)
	if err != nil {
		return "", nil // whoever uses it meets the same
	}
	at, rest := "/", steps(whole)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at) // no link is left in it
			continue
		}
		parent, err := os.Lstat(at)
		if err != nil {
			return open, nil
		}
		everybodys := parent.Mode()&0o002 != 0
		if everybodys && parent.Mode()&fs.ModeSticky == 0 && open == "" {
			open = at
		}
		entry := filepath.Join(at, name)
		info, err := os.Lstat(entry)
		if err != nil {
			return open, nil // it is not there yet, or whoever uses it meets the same
		}
		link := info.Mode()&fs.ModeSymlink != 0
		if uid, foreign := owner(info); foreign && (everybodys || link) {
			return open, wayFault(dir, fmt.Errorf("leads through %q, which belongs to user %d", entry, uid))
		}
		if !link {
			at = entry
			continue
		}
		target, err := os.Readlink(entry)
		if links++; err != nil || links > maxLinks {
			return open, wayFault(dir, errors.Join(err, syscall.ELOOP))
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(steps(target), rest...)
	}
	return open, nil
}

// steps are the names that make up a path.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// owner tells who has it, and whether that is neither root nor this user.
func owner(info fs.FileInfo) (uid uint32, foreign bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, st.Uid != 0 && int(st.Uid) != os.Geteuid()
}

func wayFault(dir string, err error) error {
	return &locks.SetupError{
		What: fmt.Sprintf("state directory %q", dir), Err: err,
		Next: "give --state-dir a directory that only this user and root can replace",
	}
}
