package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// tone is how much a cell wants to be seen.
type tone int

const (
	plain tone = iota
	good
	bad
	odd
)

// paint is what a terminal makes of a tone.
var paint = [...]string{plain: "", good: "\x1b[32m", bad: "\x1b[1;31m", odd: "\x1b[1;33m"}

const unpaint = "\x1b[0m"

// cell is a piece of a table. Its text is shown escaped.
type cell struct {
	text string
	tone tone
}

func text(s string) cell { return cell{text: s} }

func number[T int | int64](n T) cell { return cell{text: strconv.FormatInt(int64(n), 10)} }

// table prints rows in aligned columns. Columns without any text are left out.
type table struct {
	head []string
	rows [][]cell
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// render aligns by the number of characters, colours, and ends lines without
// blanks.
func (t *table) render(colour bool) string {
	widths := make([]int, len(t.head))
	for _, row := range t.rows {
		for i := range row {
			row[i].text = escaped(row[i].text)
			if n := utf8.RuneCountInString(row[i].text); n > 0 {
				widths[i] = max(widths[i], n, len(t.head[i]))
			}
		}
	}
	var b strings.Builder
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = text(h)
	}
	for _, row := range append([][]cell{head}, t.rows...) {
		gap := ""
		for i, c := range row {
			if widths[i] == 0 {
				continue
			}
			b.WriteString(gap)
			if c.text == "" {
				c.text = "-"
			}
			if colour && c.tone != plain {
				b.WriteString(paint[c.tone] + c.text + unpaint)
			} else {
				b.WriteString(c.text)
			}
			gap = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// The longest texts that are shown to people, in bytes. Whatever lockrun wrote
// is shorter; others may have written more.
const (
	maxShown = 2000 // a cell or a line of a command
	maxLine  = 4000 // a line of the log, or a text in one of its objects
)

// clipped is a text of at most most bytes, cut between characters. It keeps the
// end, where the next step stands.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := most*3/4, len(s)-most/4
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + "[..]" + s[tail:]
}

// escaped shows what could steer a terminal: rows may have been edited by
// others.
func escaped(s string) string {
	s = clipped(s, maxShown)
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return s
	}
	quoted := strconv.QuoteToGraphic(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// when is a time in both ways that people ask for: which, and how far away.
func when(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if d := now.Sub(t); d >= 0 {
		return stamp(t) + " (" + span(d) + " ago)"
	}
	return stamp(t) + " (in " + span(t.Sub(now)) + ")"
}

// span is a duration in one unit, which is all that people want to know.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 2*365*day:
		return fmt.Sprintf("%dd", d/day)
	}
	return fmt.Sprintf("%dy", d/(365*day))
}

// colour tells whether standard output takes colours: only a terminal does,
// and NO_COLOR is the user's veto.
func (in *invocation) colour() bool {
	f, ok := in.stdout.(*os.File)
	if !ok || in.env["NO_COLOR"] != "" || in.env["TERM"] == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printJSON prints the rows of a table as JSON: an array of objects, a key for
// each column.
func printJSON[T any](in *invocation, rows []T) error {
	if rows == nil {
		rows = []T{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(rows); err != nil {
		return err
	}
	return in.print(inert(b.String()))
}

// inert escapes what package json leaves as it is and a terminal does not.
func inert(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// jsonTime is a time as JSON: RFC 3339 in UTC, null for none.
type jsonTime time.Time

// MarshalJSON implements [json.Marshaler].
func (t jsonTime) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + time.Time(t).UTC().Format(time.RFC3339Nano) + `"`), nil
}

// orNull is null for the zero value, as in a column that has none.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
