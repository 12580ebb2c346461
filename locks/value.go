package locks

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	// valueTime has a fixed width, so that values differ only where claims do.
	valueTime = "2006-01-02T15:04:05.000000Z"
	// maxHolder bounds the holder's text in a value, in bytes.
	maxHolder = 512
	// maxValue is more than the longest value of [EncodeValue]: three fields of
	// at most 36, 10 and 35 bytes, the holder, and the blanks between them.
	maxValue = 1024
)

// EncodeValue gives the text that a lock keeps to say whose it is, in Redis and
// in a lock file: `run_id pid acquired-at holder`. The time is RFC 3339 in UTC;
// the holder comes last because it may hold blanks. The run id makes it unique.
func EncodeValue(c Claim) string {
	return fmt.Sprintf("%s %d %s %s", c.RunID, c.PID, c.At.UTC().Format(valueTime), printable(c.Holder))
}

// ParseValue reads the text of [EncodeValue]. It says false for anything that
// lockrun did not write: the text comes from a server or a file that others may
// have written to, and what it says reaches a terminal and a log.
func ParseValue(text string) (Holder, bool) {
	if len(text) > maxValue {
		return Holder{}, false
	}
	fields := strings.SplitN(text, " ", 4)
	if len(fields) != 4 {
		return Holder{}, false
	}
	// Parsers accept more spellings than one; only the canonical one is ours.
	if !isRunID(fields[0]) {
		return Holder{}, false
	}
	pid, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil || pid <= 0 || strconv.FormatInt(pid, 10) != fields[1] {
		return Holder{}, false
	}
	var since time.Time
	if err := since.UnmarshalText([]byte(fields[2])); err != nil ||
		!strings.HasSuffix(fields[2], "Z") || strings.Contains(fields[2], ",") {
		return Holder{}, false
	}
	return Holder{RunID: fields[0], PID: int(pid), Since: since, Text: printable(fields[3])}, true
}

// isRunID tells whether text is a uuid in the one spelling that lockrun writes. It
// does without a library, because with one the guardian, which is small on
// purpose, would have to initialise a network stack.
func isRunID(text string) bool {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(form) {
		return false
	}
	for i, want := range []byte(form) {
		c := text[i]
		if want == '-' && c != '-' || want == 'x' && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// ShownRune is r, or what stands for it if it could steer a terminal or break a
// line.
func ShownRune(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// printable replaces what could steer a terminal or break a line, and cuts the
// text to [maxHolder] bytes between two characters.
func printable(text string) string {
	text = strings.Map(ShownRune, text)
	if len(text) <= maxHolder {
		return text
	}
	cut := 0
	for i := range text {
		if i > maxHolder {
			break
		}
		cut = i
	}
	return text[:cut]
}
