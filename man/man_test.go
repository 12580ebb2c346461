// Package man holds the man pages, and here what keeps them true.
package man

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockrun/runner/app"
)

var pages = []string{"lockrun.1", "lockrun.7", "lockrun-ops.7"}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found are the first groups of all matches in a text.
func found(text, pattern string) map[string]bool {
	set := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		set[m[1]] = true
	}
	return set
}

// section is the text of a section of lockrun(1).
func section(t *testing.T, title string) string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, "lockrun.1"), "\n.Sh "+title+"\n")
	if !ok {
		t.Fatalf("lockrun.1 has no section %q", title)
	}
	text, _, _ = strings.Cut(text, "\n.Sh ")
	return text
}

// same compares what the program has with what the pages say.
func same(t *testing.T, what string, program, page map[string]bool) {
	t.Helper()
	for word := range program {
		if !page[word] {
			t.Errorf("%s %s: the program has it, the page does not", what, word)
		}
	}
	for word := range page {
		if !program[word] {
			t.Errorf("%s %s: the page has it, the program does not", what, word)
		}
	}
}

func set(words []string) map[string]bool {
	set := map[string]bool{}
	for _, w := range words {
		set[w] = true
	}
	return set
}

func TestOptions(t *testing.T) {
	program, short, ownOptions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range app.List().Commands {
		for _, o := range c.Options {
			program[o.Name] = true
			if c.Name == "" {
				ownOptions[o.Name] = true
			}
			if o.Short != "" {
				short[o.Short] = true
			}
		}
	}
	for _, page := range pages {
		for name := range found(read(t, page), `(?:\bFl -|\\-\\-)([a-z][a-z-]*)`) {
			if !program[name] {
				t.Errorf("%s names --%s, which the program does not have", page, name)
			}
		}
	}
	same(t, "option", program, found(read(t, "lockrun.1"), `\bFl -([a-z][a-z-]*)`))
	same(t, "option of a run", ownOptions, found(section(t, "OPTIONS"), `(?m)^\.It .*Fl -([a-z][a-z-]*)`))
	same(t, "option", short, found(section(t, "OPTIONS"), `(?m)^\.It Fl (\w)\b`))
}

// TestExamples wants the examples to use only what there is.
func TestExamples(t *testing.T) {
	options, variables := map[string]bool{}, map[string]bool{}
	list := app.List()
	for _, c := range list.Commands {
		for _, o := range c.Options {
			options[o.Name] = true
		}
	}
	for _, v := range append(list.Variables, list.Exported...) {
		variables[v] = true
	}
	seen := 0
	err := filepath.WalkDir("../testdata/examples", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := read(t, path)
		names := found(text, `(?m)(?:^|\s)--([a-z][a-z-]*)`)
		if filepath.Base(path) == "lockrun.yaml" {
			names = found(text, `(?m)^([a-z-]+):`)
		}
		delete(names, "from") // of a Dockerfile
		for name := range names {
			if seen++; !options[name] {
				t.Errorf("%s has %s, which is no option", path, name)
			}
		}
		for name := range found(text, `\b(LOCKRUN_\w+)`) {
			if seen++; !variables[name] {
				t.Errorf("%s has %s, which is no variable", path, name)
			}
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Errorf("%d options and variables in the examples, %v", seen, err)
	}
}

// TestOptionVariables wants each option's variable on the option's own line.
func TestOptionVariables(t *testing.T) {
	program := map[string]string{}
	for _, o := range app.List().Commands[0].Options {
		if o.Env != "" {
			program[o.Name] = o.Env
		}
	}
	page := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\.It .*Fl -([a-z-]+).* Pq Ev (\w+)`).FindAllStringSubmatch(section(t, "OPTIONS"), -1) {
		page[m[1]] = m[2]
	}
	if !maps.Equal(page, program) {
		t.Errorf("the page has the variables %v, the program %v", page, program)
	}
}

func TestVariables(t *testing.T) {
	list := app.List()
	same(t, "variable", set(append(list.Variables, list.Exported...)), found(read(t, "lockrun.1"), `\b(LOCKRUN_\w+)`))
	same(t, "variable of the child", set(list.Exported), found(section(t, "ENVIRONMENT"),
		`(?m)^\.It Ev (LOCKRUN_(?:NAME|DATE|RUN_ID|ATTEMPT|TOKEN))$`))
	for _, page := range pages[1:] {
		for name := range found(read(t, page), `\b(LOCKRUN_\w+)`) {
			if !slices.Contains(list.Variables, name) && !slices.Contains(list.Exported, name) {
				t.Errorf("%s names %s, which the program does not know", page, name)
			}
		}
	}
}

func TestCommands(t *testing.T) {
	program := map[string]bool{}
	for _, c := range app.List().Commands[1:] {
		program[c.Name] = true
	}
	same(t, "command", program, found(section(t, "COMMANDS"), `(?m)^\.It Cm (\w+)`))
	synopsis := section(t, "SYNOPSIS")
	for name := range program {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(synopsis) {
			t.Errorf("the synopsis lacks %q", name)
		}
	}
	for _, c := range app.List().Commands {
		for _, word := range c.Words {
			if !strings.Contains(section(t, "COMMANDS"), word) {
				t.Errorf("%s %s is not in the page", c.Name, word)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	program := map[string]bool{}
	for _, code := range app.List().ExitCodes {
		program[strconv.Itoa(code)] = true
	}
	for name, value := range constants(t, "../runner/exitcode.go", "Exit") {
		if !program[value] {
			t.Errorf("the inventory lacks %s = %s", name, value)
		}
	}
	same(t, "exit code", program, found(section(t, "EXIT STATUS"), `(?m)^\.It (\d+)$`))
	ops := found(read(t, "lockrun-ops.7"), `(?m)^\.It (\d+)(?:$|,)`)
	for code := range program {
		if code != "0" && code != "1" && code != "127" && !ops[code] { // 127 stands with 126
			t.Errorf("lockrun-ops.7 does not say what to do about %s", code)
		}
	}
}

func TestLog(t *testing.T) {
	events := app.List().Events
	for name, value := range constants(t, "../runner/event.go", "Event") {
		if !slices.Contains(events, value) {
			t.Errorf("the inventory lacks %s = %s", name, value)
		}
	}
	keys, words, ok := strings.Cut(section(t, "DIAGNOSTICS"), "The events:")
	if !ok {
		t.Fatal("the page lists no events")
	}
	same(t, "event", set(events), found(words, `(?m)^\.It Li (\w+)$`))
	same(t, "key of the log", found(read(t, "../runner/app/log.go"), "`json:\"(\\w+)"), found(keys, `(?m)^\.It Li (\w+)$`))
	sources, err := filepath.Glob("../runner/app/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		for key := range found(read(t, path), "`json:\"(\\w+)") {
			if !regexp.MustCompile(`\b` + key + `\b`).MatchString(section(t, "DIAGNOSTICS")) {
				t.Errorf("%s prints the key %q, the page does not have it", path, key)
			}
		}
	}
}

// TestHelp wants every option of a command in its own help, and no other.
func TestHelp(t *testing.T) {
	for _, c := range app.List().Commands {
		program := map[string]bool{}
		for _, o := range c.Options {
			if o.Name == "help" {
				continue // who reads it has found it
			}
			program[o.Name] = true
			if o.Short != "" && c.Name == "" && !regexp.MustCompile(`(^|\W)-`+o.Short+`\b`).MatchString(c.Help) {
				t.Errorf("the help lacks -%s", o.Short)
			}
		}
		help := found(c.Help, `--([a-z][a-z-]*)`)
		delete(help, "help")
		same(t, "help of "+strconv.Quote(c.Name)+", option", program, help)
	}
	help := app.List().Commands[0].Help
	for _, c := range app.List().Commands[1:] {
		if !regexp.MustCompile(`\b` + c.Name + `\b`).MatchString(help) {
			t.Errorf("the help lacks the command %q", c.Name)
		}
	}
	for _, code := range app.List().ExitCodes {
		if code != 1 && !regexp.MustCompile(`\b`+strconv.Itoa(code)+`\b`).MatchString(help) {
			t.Errorf("the help lacks exit code %d", code)
		}
	}
}

// TestLint wants no complaint of mandoc but one: that pages are not installed
// to which others refer.
func TestLint(t *testing.T) {
	for _, page := range pages {
		out, err := exec.Command("mandoc", "-T", "lint", "-W", "style", page).CombinedOutput()
		if len(out) == 0 && err != nil {
			t.Fatalf("mandoc %s: %v", page, err)
		}
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, "referenced manual not found: Xr ") && !strings.Contains(line, "outdated mandoc.db") {
				t.Error(strings.TrimSpace(line))
			}
		}
	}
	for name := range found(read(t, "lockrun.1")+read(t, "lockrun.7")+read(t, "lockrun-ops.7"), `(?m)^\.Xr (lockrun\S* \d)`) {
		if !slices.Contains(pages, strings.ReplaceAll(name, " ", ".")) {
			t.Errorf("a page refers to %s, which is not there", name)
		}
	}
}

// constants reads the constants of a Go file whose names begin with prefix.
func constants(t *testing.T, path, prefix string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			values[spec.Names[0].Name] = strings.Trim(literal.Value, `"`)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants %s...", path, prefix)
	}
	return values
}
