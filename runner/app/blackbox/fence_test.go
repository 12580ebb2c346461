package blackbox

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lockrun/locks/locktest"
)

// ledgerDir holds the example of a fenced job.
var ledgerDir = filepath.Join("testdata", "examples", "ledger")

// ledgerJob vets and builds its Go program, once: "./..." leaves testdata out.
var ledgerJob = sync.OnceValues(func() (string, error) {
	path, pkg := filepath.Join(buildDir, "eod"), "./"+filepath.Join(ledgerDir, "job")
	for _, args := range [][]string{{"vet", pkg}, {"build", "-o", path, pkg}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return path, nil
})

// ledger [SCHEMA...] makes the ledger of the example in each schema, default
// public. Its files are in $LEDGER, the Go program is $EOD, and the variables of
// psql lead to the script's database.
func cmdLedger(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, true, "ledger [SCHEMA...]")
	dir, err := filepath.Abs(ledgerDir)
	ts.Check(err)
	job, err := ledgerJob()
	ts.Check(err)
	ts.Setenv("LEDGER", dir)
	ts.Setenv("EOD", job)
	for key, value := range pgVariables(ts.Getenv("PG")) {
		ts.Setenv(key, value)
	}
	if len(args) == 0 {
		args = []string{"public"}
	}
	for _, schema := range args {
		ts.Check(ts.Exec("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-c", "CREATE SCHEMA IF NOT EXISTS "+schema,
			"-c", "SET search_path = "+schema, "-f", filepath.Join(dir, "ledger.sql")))
	}
}

// pgVariables says what a DSN of a test says in the variables of libpq.
func pgVariables(dsn string) map[string]string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		panic(err)
	}
	return map[string]string{
		"PGHOST": host, "PGPORT": port, "PGUSER": u.User.Username(), "PGDATABASE": strings.TrimPrefix(u.Path, "/"), "PGSSLMODE": "disable",
	}
}

// TestLedgerReadme runs the commands of the example's README, as they stand
// there, in a copy of this directory that is made of links.
func TestLedgerReadme(t *testing.T) {
	program := build(t)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := func(from, name string) {
		t.Helper()
		if err := os.Symlink(from, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(program, "lockrun")
	for _, e := range entries {
		if e.Name() != "lockrun" && e.Name() != "eod" {
			link(filepath.Join(root, e.Name()), e.Name())
		}
	}
	text, err := os.ReadFile(filepath.Join(ledgerDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, m := range regexp.MustCompile(`(?m)^    (.*)$`).FindAllSubmatch(text, -1) {
		commands = append(commands, string(m[1]))
	}

	pg := locktest.SharedPostgres(t)
	pg.Exec(t, "postgres", "CREATE ROLE batch LOGIN PASSWORD 'batch'")
	pg.Exec(t, "postgres", "CREATE DATABASE batch OWNER batch")
	env := append(os.Environ(), "LOCKRUN_POSTGRES="+strings.Replace(pg.DSN("batch"), "postgres@", "batch:batch@", 1),
		fmt.Sprint("PGPORT=", pg.Port()), "PGSSLMODE=disable")
	sh := func(script string) {
		t.Helper()
		cmd := exec.Command("sh", "-eu", "-c", script)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	sh("./lockrun init")
	sh(strings.Join(commands, "\n"))
	got, err := query(pg.DSN("batch"), `SELECT p.run_date, count(*), r.state FROM posting p JOIN lockrun.run r ON r.run_date = p.run_date::text GROUP BY 1, 3 ORDER BY 1`)
	const want = "2026-11-16|3|succeeded\n2026-11-17|3|succeeded\n2026-11-18|3|succeeded\n2026-11-19|3|succeeded\n"
	if err != nil || got != want {
		t.Errorf("the ledger has %q %v, want %q", got, err, want)
	}
}
