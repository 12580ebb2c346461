package app

import (
	"encoding/hex"
	"fmt"
	"io/fs"
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
	raw, mode, err := locks.ReadRegular(path)
	if err != nil {
		return "", usagef("%s: %w", where, err)
	}
	value := strings.TrimSpace(string(raw))
	if value == "" {
		return "", usagef("%s: %q is empty", where, path)
	}
	if can := sharedWith(mode); can != "" && holdsPassword(value) {
		return "", &locks.SetupError{
			What: where, Err: fmt.Errorf("%q holds a password and others can %s it (mode %04o)", path, can, mode.Perm()),
			Next: fmt.Sprintf("chmod 600 %q", path),
		}
	}
	return value, nil
}

// sharedWith tells what others may do with a file of this mode, "" for nothing
// that matters to one with a password in it: to read that, or to put other
// servers in its place.
func sharedWith(mode fs.FileMode) string {
	switch {
	case mode&0o044 != 0:
		return "read"
	case mode&0o022 != 0:
		return "write to"
	}
	return ""
}

// passwordIn matches a password in a URL's user part or in a key=value text. A
// wrong yes costs a chmod, a wrong no leaves a password readable.
var passwordIn = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)://[^/?#\s]*:[^@]*@|password\s*=`)
})

func holdsPassword(text string) bool {
	return passwordIn().MatchString(text) || passwordIn().MatchString(unescaped(text))
}

// escape matches a character as a URL may write it.
var escape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[0-9A-Fa-f]{2}`) })

// unescaped is a text with the characters that a URL's escapes stand for; what is
// no escape stays.
func unescaped(text string) string {
	return escape().ReplaceAllStringFunc(text, func(e string) string {
		char, _ := hex.DecodeString(e[1:])
		return string(char)
	})
}
