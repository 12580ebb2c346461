package app

import (
	"regexp"
	"testing"
)

// The checks of plain texts agree with the patterns that they stand for.
func FuzzPlain(f *testing.F) {
	name := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\z`)
	key := regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}\z`)
	for _, text := range []string{"", "a", "-a", "eod-interest", "A.b:c/d_9", "_x", "9", "a\n", "K", "k\u0130", "\xff", "a b", string(make([]byte, 129))} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := isName(text), name.MatchString(text); got != want {
			t.Errorf("isName(%q) = %v", text, got)
		}
		if got, want := isPlainKey(text), key.MatchString(text); got != want {
			t.Errorf("isPlainKey(%q) = %v", text, got)
		}
	})
}
