package locks

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

const someRun = "0197c2a4-5b6e-7d10-9a3f-2f1de0a41c11"

func TestEncodeValue(t *testing.T) {
	at := time.Date(2026, 3, 1, 1, 2, 3, 45_000_000, time.FixedZone("", 3600))
	got := EncodeValue(Claim{Name: "eod", RunID: someRun, PID: 42, Holder: "node 7, rack b", At: at})
	want := someRun + " 42 2026-03-01T00:02:03.045000Z node 7, rack b"
	if got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	h, ok := ParseValue(got)
	if !ok || h.RunID != someRun || h.PID != 42 || h.Text != "node 7, rack b" || !h.Since.Equal(at) {
		t.Fatalf("ParseValue(%q) = %+v, %v", got, h, ok)
	}
}

func TestParseValue(t *testing.T) {
	const when = "2026-03-01T00:02:03.045000Z"
	for name, c := range map[string]struct {
		text   string
		ok     bool
		holder string
	}{
		"plain":              {someRun + " 1 " + when + " host", true, "host"},
		"no fraction":        {someRun + " 1 2026-03-01T00:02:03Z host", true, "host"},
		"other zone":         {someRun + " 1 2026-03-01T01:02:03+01:00 host", false, ""},
		"empty holder":       {someRun + " 1 " + when + " ", true, ""},
		"blanks in holder":   {someRun + " 1 " + when + "  a  b ", true, " a  b "},
		"control characters": {someRun + " 1 " + when + " a\x1b[31mb\nc\u202ed", true, "a\ufffd[31mb\ufffdc\ufffdd"},
		"not UTF-8":          {someRun + " 1 " + when + " a\xff", true, "a\ufffd"},
		"empty":              {"", false, ""},
		"no holder":          {someRun + " 1 " + when, false, ""},
		"no uuid":            {"host 1 " + when + " host", false, ""},
		"upper-case uuid":    {strings.ToUpper(someRun) + " 1 " + when + " host", false, ""},
		"braced uuid":        {"{" + someRun + "} 1 " + when + " host", false, ""},
		"pid 0":              {someRun + " 0 " + when + " host", false, ""},
		"negative pid":       {someRun + " -1 " + when + " host", false, ""},
		"signed pid":         {someRun + " +1 " + when + " host", false, ""},
		"pid too large":      {someRun + " 2147483648 " + when + " host", false, ""},
		"no time":            {someRun + " 1 yesterday host", false, ""},
		"comma in time":      {someRun + " 1 2026-03-01T00:02:03,5Z host", false, ""},
		"too long":           {someRun + " 1 " + when + " " + strings.Repeat("x", maxValue), false, ""},
		"leading blank":      {" " + someRun + " 1 " + when + " host", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, ok := ParseValue(c.text)
			if ok != c.ok || h.Text != c.holder {
				t.Fatalf("ParseValue(%q) = %+v, %v", c.text, h, ok)
			}
			if !ok && h != (Holder{}) {
				t.Fatalf("a refused value told %+v", h)
			}
		})
	}
}

func FuzzParseValue(f *testing.F) {
	f.Add(someRun + " 42 2026-03-01T00:02:03.045000Z node 7")
	f.Add(someRun + " 1 2026-03-01T00:02:03Z \x1b]0;x\a")
	f.Add("held")
	f.Fuzz(func(t *testing.T, text string) {
		h, ok := ParseValue(text)
		if !ok {
			return
		}
		if len(h.Text) > maxHolder || !utf8.ValidString(h.Text) {
			t.Fatalf("holder %q", h.Text)
		}
		for _, r := range h.Text {
			if !unicode.IsPrint(r) {
				t.Fatalf("holder %q has %U", h.Text, r)
			}
		}
		// A value of ours is read back as it was.
		again, ok := ParseValue(EncodeValue(Claim{RunID: h.RunID, PID: h.PID, Holder: h.Text, At: h.Since}))
		if !ok || again.RunID != h.RunID || again.PID != h.PID || again.Text != h.Text ||
			!again.Since.Equal(h.Since.Truncate(time.Microsecond)) {
			t.Fatalf("%+v came back as %+v, %v", h, again, ok)
		}
	})
}

func FuzzEncodeValue(f *testing.F) {
	f.Add("node 7")
	f.Add(strings.Repeat("ä", maxHolder))
	f.Fuzz(func(t *testing.T, holder string) {
		h, ok := ParseValue(EncodeValue(Claim{RunID: someRun, PID: 1, Holder: holder, At: time.Unix(1, 0)}))
		if !ok || h.Text != printable(holder) {
			t.Fatalf("%q came back as %+v, %v", holder, h, ok)
		}
	})
}
