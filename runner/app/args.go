package app

import (
	"slices"
	"strings"
)

// splitArgs cuts at the first "--". The flag library never sees the child's
// words: it would take a child called help or status for its own command.
func splitArgs(argv []string) (own, command []string, cut bool) {
	i := slices.Index(argv, "--")
	if i < 0 {
		return argv, nil, false
	}
	return argv[:i:i], argv[i+1:], true
}

// splitShort takes glued short options apart, as getopt would: -nq, -w10. A
// single dash before a long name stays: the flag library knows that form.
func splitShort(args []string) []string {
	known := map[byte]option{}
	long := map[string]bool{}
	for _, o := range allOptions {
		long[o.name] = true
		if o.short != "" {
			known[o.short[0]] = o
		}
	}
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if len(arg) < 3 || arg[0] != '-' || arg[1] == '-' || long[name] {
			out = append(out, arg)
			// The value of an option must not be taken for one.
			if o, ok := valueOption(arg, known); ok && o.kind != takesNothing && i+1 < len(args) {
				i++
				out = append(out, args[i])
			}
			continue
		}
		out = append(out, takeApart(arg, known)...)
	}
	return out
}

// valueOption finds the option whose value is the next word.
func valueOption(arg string, known map[byte]option) (option, bool) {
	name := strings.TrimLeft(arg, "-")
	if name == arg || strings.Contains(name, "=") {
		return option{}, false
	}
	for _, o := range allOptions {
		if o.name == name {
			return o, true
		}
	}
	if len(name) == 1 {
		o, ok := known[name[0]]
		return o, ok
	}
	return option{}, false
}

func takeApart(arg string, known map[byte]option) []string {
	var out []string
	for i := 1; i < len(arg); i++ {
		o, ok := known[arg[i]]
		if !ok {
			return []string{arg} // the flag library names what is unknown
		}
		out = append(out, "-"+o.short)
		if o.kind != takesNothing {
			if rest := strings.TrimPrefix(arg[i+1:], "="); rest != "" {
				out = append(out, rest)
			}
			break
		}
	}
	return out
}

// nearest finds the option that a mistyped name was meant for.
func nearest(name string, options []option) string {
	best, limit := "", max(1, len(name)/3)+1
	for _, o := range options {
		if d := distance(name, o.name); d < limit {
			best, limit = o.name, d
		}
	}
	return best
}

// distance is the number of letters to insert, remove, replace, or swap with
// their neighbour.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
