package app

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

// FuzzSplitArgs cuts command lines, whose words are separated by newlines.
func FuzzSplitArgs(f *testing.F) {
	for _, line := range []string{
		"lockrun\n--name\nx\n--\njob\n--\n-n", "lockrun\n-nq\n-w10\n--\n--", "-w\n-nq", "-E=7\n-nw=3\n-\n--", "---x\n-n-\n-wn", "--wait\n--\n-q",
	} {
		f.Add(line)
	}
	// What is glued or taken apart, without what marks it.
	bare := func(args []string) string {
		return strings.NewReplacer("-", "", "=", "").Replace(strings.Join(args, ""))
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\n")
		own, command, cut := splitArgs(argv)
		if slices.Contains(own, "--") || cut != slices.Contains(argv, "--") {
			t.Fatalf("%q: %q, %q, %v", argv, own, command, cut)
		}
		whole := own
		if cut {
			whole = append(append(slices.Clone(own), "--"), command...)
		}
		if !slices.Equal(whole, argv) {
			t.Fatalf("%q became %q", argv, whole)
		}
		before := slices.Clone(argv)
		split := splitShort(own)
		if !slices.Equal(argv, before) {
			t.Fatalf("%q was changed to %q", before, argv)
		}
		if bare(split) != bare(own) || len(split) < len(own) {
			t.Errorf("%q was taken apart as %q", own, split)
		}
	})
}

// FuzzParseConfig has a secret among the values, and it stays there.
func FuzzParseConfig(f *testing.F) {
	for _, content := range []string{
		"postgres: S3CRET\nredis: [S3CRET]\n", "name: x\nname: S3CRET", "postgress: S3CRET", "ttl: {a: S3CRET}", "S3CRET", "- S3CRET",
		"a: &x S3CRET\nb: *x", "? [a]\n: S3CRET", "<<: {name: S3CRET}", "'S3CRET", "local: S3CRET", "tz: !!binary S3CRET", "---\n---\nname: x",
	} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		values, err := parseConfig(content)
		if err != nil {
			if text := err.Error(); strings.Contains(text, "S3CRET") || len(text) > 400 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q: %q", content, text)
			}
			return
		}
		for name := range values {
			if !slices.ContainsFunc(runOptions, func(o option) bool { return o.name == name }) {
				t.Errorf("%q: unknown %q was taken", content, name)
			}
		}
	})
}

// FuzzShown is about all that is shown to people and written to logs.
func FuzzShown(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff\u2028\U000e0001")
	f.Add(strings.Repeat("\u00e4", 5000))
	f.Fuzz(func(t *testing.T, text string) {
		for what, shown := range map[string]string{"escaped": escaped(text), "printable": printable(text), "inert": inert(text)} {
			// Wide blanks are graphic, though not "printable"; they steer nothing.
			raw := func(r rune) bool { return !unicode.IsGraphic(r) && (what != "inert" || r != '\n') }
			if strings.ContainsFunc(shown, raw) {
				t.Errorf("%s: %q gives %q", what, text, shown)
			}
		}
	})
}
