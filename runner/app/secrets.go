package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"

	"lockrun/locks"
)

const filePrefix = "file:"

// secret reads a setting that may hold a password: the text itself, or with
// file:PATH what that file says. where names the setting for messages.
func secret(where, text string) (string, error) {
	path, isFile := strings.CutPrefix(text, filePrefix)
	if !isFile {
		return text, nil
	}
	raw, mode, err := readRegular(path)
	if err != nil {
		return "", usagef("%s: %w", where, pathFault(path, err))
	}
	value := strings.TrimSpace(string(raw))
	if value == "" {
		return "", usagef("%s: %q is empty", where, path)
	}
	if mode&0o044 != 0 && holdsPassword(value) {
		return "", &locks.SetupError{
			What: where, Err: fmt.Errorf("%q holds a password and others can read it (mode %04o)", path, mode.Perm()),
			Next: fmt.Sprintf("chmod 600 %q", path),
		}
	}
	return value, nil
}

// maxFile bounds what is read of a file that an option names.
const maxFile = 1 << 20

// readRegular reads a file that an option names, and tells its mode.
func readRegular(path string) (content []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(path) // before it is opened: a FIFO would wait for a writer
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return nil, 0, err
	}
	content, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = errors.New("is larger than 1 MiB")
	}
	return content, info.Mode(), err
}

// pathFault drops what fs errors repeat, and quotes the path.
func pathFault(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%q: %w", path, err)
}

// passwordIn matches a password in a URL's user part or in a key=value text. A
// wrong yes costs a chmod, a wrong no leaves a password readable.
var passwordIn = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)://[^/?#\s]*:[^@]*@|password\s*=`)
})

func holdsPassword(text string) bool { return passwordIn().MatchString(text) }
