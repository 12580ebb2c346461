package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestWhen(t *testing.T) {
	now := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Time{}, ""},
		{now, "2026-07-01T10:00:00Z (0s ago)"},
		{now.Add(-59 * time.Second), "2026-07-01T09:59:01Z (59s ago)"},
		{now.Add(-90 * time.Minute).In(time.FixedZone("x", 7200)), "2026-07-01T08:30:00Z (1h ago)"},
		{now.Add(-47 * time.Hour), "2026-06-29T11:00:00Z (47h ago)"},
		{now.Add(45 * time.Second), "2026-07-01T10:00:45Z (in 45s)"},
		{now.Add(72 * time.Hour), "2026-07-04T10:00:00Z (in 3d)"},
		{time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), "9999-12-31T00:00:00Z (in 292y)"},
	} {
		if got := when(now, c.at); got != c.want {
			t.Errorf("%v: %q, want %q", c.at, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	table := &table{head: []string{"NAME", "EMPTY", "STATE", "N"}}
	table.add(text("eod"), cell{}, cell{"UNKNOWN", odd}, number(7))
	table.add(text("zürich"), cell{}, cell{"succeeded", good}, cell{})
	want := "NAME    STATE      N\neod     UNKNOWN    7\nzürich  succeeded  -\n"
	if got := table.render(false); got != want {
		t.Errorf("plain\n%s\nwant\n%s", got, want)
	}
	coloured := table.render(true)
	if got := strings.NewReplacer("\x1b[1;33m", "", "\x1b[32m", "", unpaint, "").Replace(coloured); got != want || !strings.Contains(coloured, "\x1b[1;33mUNKNOWN"+unpaint+"    7") {
		t.Errorf("coloured\n%q", coloured)
	}
}

// What others wrote into the rows must not steer a terminal, in either form.
func TestEscaped(t *testing.T) {
	for given, want := range map[string]string{
		"":                "",
		"node 7 (zürich)": "node 7 (zürich)",
		`a "b" \ c`:       `a "b" \ c`,
		"\x1b[2Ja":        `\x1b[2Ja`,
		"a\nb\t\"c\"":     `a\nb\t"c"`,
		"\u009b2J":        `\u009b2J`,
		"a\u202eb":        `a\u202eb`,
		"\xff":            `\xff`,
	} {
		if got := escaped(given); got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
		text, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		shown := inert(string(text))
		var back string
		if err := json.Unmarshal([]byte(shown), &back); err != nil || back != strings.ToValidUTF8(given, "\uFFFD") {
			t.Errorf("%q: %s says %q, %v", given, shown, back, err)
		}
		if strings.ContainsAny(shown, "\x1b\u009b\u202e\n") {
			t.Errorf("%q: %s", given, shown)
		}
	}
	if got := inert("\U000e0001"); got != `\udb40\udc01` {
		t.Errorf("above the first plane: %s", got)
	}
}
