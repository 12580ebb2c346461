package quorum

import (
	"strings"
	"testing"
	"unicode"
)

// FuzzParseURL has a secret where the password is, in whatever company.
func FuzzParseURL(f *testing.F) {
	for _, parts := range [][3]string{
		{"redis://u:", "", "@h:1/0"}, {"rediss://:a/", "@", "h:1"}, {"unix://:", "", "@/s?db=1"}, {"redis://:x@y", "?", "@h"}, {"redis://u:%", "#", "@h:70000"},
		{":", "", "@h"}, {"redis://[", "", "]:1"}, {"redis://h:", "", ""}, {"redis://h/", "", ""}, {"redis://h?db=", "", ""},
	} {
		f.Add(parts[0], parts[1], parts[2])
	}
	const mark = "S3CRET"
	f.Fuzz(func(t *testing.T, before, after, rest string) {
		if strings.Contains(before+after+rest, mark[:3]) {
			return
		}
		parsed, err := parseURL(before + mark + after + rest)
		if err != nil {
			if strings.Contains(err.Error(), mark) {
				t.Errorf("%q: %v", before+mark+after+rest, err)
			}
			return
		}
		// What is shown is a host or a path; neither holds what a password needs.
		if strings.ContainsFunc(parsed.name, func(r rune) bool { return !unicode.IsPrint(r) }) ||
			parsed.network == "tcp" && strings.ContainsAny(parsed.name, "@/?#%, ") && !strings.HasPrefix(parsed.name, "[") {
			t.Errorf("%q is shown as %q", before+mark+after+rest, parsed.name)
		}
	})
}

// FuzzExplainReply reads what a server says, whoever it is.
func FuzzExplainReply(f *testing.F) {
	for _, text := range []string{"NOPERM x", "ERR unknown command 'S3CRET'", "WRONGPASS S3CRET", "\x1b[2J", strings.Repeat("\u00e4", 200), ""} {
		f.Add(text)
	}
	n := &node{name: "h:1", password: "S3CRET"}
	f.Fuzz(func(t *testing.T, text string) {
		shown, kind := n.explainReply(text)
		if kind == "" || len(shown) > 400 || strings.Contains(shown, n.password) ||
			strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is shown as %q, %q", text, shown, kind)
		}
	})
}
