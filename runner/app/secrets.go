package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

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
	f, err := os.Open(path)
	if err != nil {
		return "", usagef("%s: %w", where, pathFault(path, err))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", usagef("%s: %w", where, pathFault(path, err))
	}
	if !info.Mode().IsRegular() {
		return "", usagef("%s: %q is not a regular file", where, path)
	}
	const most = 1 << 20
	if info.Size() > most {
		return "", usagef("%s: %q is larger than 1 MiB", where, path)
	}
	raw := make([]byte, info.Size())
	n, err := f.Read(raw)
	if err != nil && n == 0 && info.Size() > 0 {
		return "", usagef("%s: %w", where, pathFault(path, err))
	}
	value := strings.TrimSpace(string(raw[:n]))
	if value == "" {
		return "", usagef("%s: %q is empty", where, path)
	}
	if mode := info.Mode().Perm(); mode&0o044 != 0 && holdsPassword(value) {
		return "", &locks.SetupError{
			What: where, Err: fmt.Errorf("%q holds a password and others can read it (mode %04o)", path, mode),
			Next: fmt.Sprintf("chmod 600 %q", path),
		}
	}
	return value, nil
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
var passwordIn = regexp.MustCompile(`(?i)://[^/?#\s]*:[^@]*@|password\s*=`)

func holdsPassword(text string) bool { return passwordIn.MatchString(text) }
