package blackbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockrun/locks/locktest"
)

// mark is in every piece of the passwords below, so that no half of one can
// hide behind a character that some parser cuts at.
const mark = "S3CRET"

const (
	password = "S3CRETa@S3CRETb:S3CRETc/S3CRETd,S3CRETe%S3CRETf S3CRETg"
	wrong    = "S3CRETx@S3CRETy:S3CRETz/S3CRETw,S3CRETv%41S3CRETu S3CRETt"
)

// vault has servers that want the password, and a place for files.
type vault struct {
	*testing.T
	program, dir         string
	pg                   *locktest.Postgres
	redis                *locktest.Redis
	host, node, database string
}

// given is one way of telling lockrun the passwords.
type given struct {
	name      string
	args, env []string
}

func openVault(t *testing.T) *vault {
	v := &vault{T: t, program: build(t), dir: t.TempDir(), pg: locktest.StartPostgres(t), redis: locktest.StartRedis(t), database: "postgres"}
	v.host = fmt.Sprintf("127.0.0.1:%d", v.pg.Port())
	v.node = v.redis.Addr()
	v.pg.Exec(t, v.database, "CREATE ROLE keeper LOGIN SUPERUSER PASSWORD '"+password+"'")
	v.pg.Install("pg_hba.conf", []byte("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"))
	v.pg.Exec(t, v.database, "SELECT pg_reload_conf()")
	client := v.redis.Client()
	defer func() { _ = client.Close() }()
	if err := client.ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *vault) file(name, content string, mode fs.FileMode) string {
	v.Helper()
	path := filepath.Join(v.dir, name)
	if err := errors.Join(os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode)); err != nil {
		v.Fatal(err)
	}
	return path
}

func (v *vault) dsn(user, pass, host, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(user, pass), Host: host, Path: "/" + database, RawQuery: "sslmode=disable"}).String()
}

// run starts lockrun as a user would who knows nothing but what is given.
func (v *vault) run(g given, args ...string) (out, code string) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), patience)
	defer cancel()
	cut := len(args)
	for i, a := range args {
		if a == "--" {
			cut = i
			break
		}
	}
	words := append(append(append([]string{}, args[:cut]...), g.args...), args[cut:]...)
	cmd := exec.CommandContext(ctx, v.program, words...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + v.dir, "XDG_STATE_HOME=" + filepath.Join(v.dir, "state"), "TZ=UTC"}, g.env...)
	text, err := cmd.CombinedOutput()
	return string(text), statusText(err)
}

// silent fails if what lockrun said holds a piece of a password.
func (v *vault) silent(what, text string) {
	v.Helper()
	if i := strings.Index(text, mark); i >= 0 {
		v.Errorf("%s: it tells a secret: %q", what, text[max(0, i-200):min(len(text), i+200)])
	}
}

// TestSecrets tells lockrun passwords in every way that there is, lets every
// command do well and fail, and looks for them in all that is left.
func TestSecrets(t *testing.T) {
	v := openVault(t)
	forms := v.forms()
	if out, code := v.run(forms[0].forCommand("init"), "init"); code != "0" {
		t.Fatalf("init: %s, %s", code, out)
	}
	// The child tells what /proc shows of itself and of the guardian above it.
	spy := v.file("spy", `for p in $$ $PPID; do for f in cmdline environ; do echo "$p.$f $(tr '\0\n' '  ' </proc/$p/$f)"; done; done`, 0o600)
	for i, g := range forms {
		date := fmt.Sprintf("2026-01-%02d", i+1)
		out, code := v.run(g, "--name", "eod", "--date", date, "-v", "--", "sh", spy)
		if code != "0" || strings.Count(out, ".cmdline ") != 2 {
			t.Fatalf("%s: a run ended with %s: %s", g.name, code, out)
		}
		v.silent(g.name+", run", strip(out, g.env))
		commands := [][]string{
			{"--name", "eod", "--date", date, "--", "true"}, // done
			{"--name", "fails", "--date", date, "--log-format", "json", "-v", "--", "false"},
			{"--name", "fails", "--date", date, "--log-format", "json", "--", "true"}, // refused
			{"status", "--json"}, {"doctor"},
			{"init"}, {"status"}, {"history", "--name", "eod"}, {"history", "--name", "fails", "--json"},
			{"resolve", "--name", "fails", "--date", date, "--as", "rerun", "--reason", "test"},
			{"release", "--name", "eod", "--reason", "test"}, {"doctor", "--json"}, {"--name", "none", "--", "no-such-command"},
		}
		if g.name != "flag" && g.name != "config" {
			commands = commands[:5]
		}
		for _, command := range commands {
			out, code := v.run(g.forCommand(command[0]), command...)
			if code == "64" {
				t.Errorf("%s, %q: %s", g.name, command, out)
			}
			v.silent(fmt.Sprintf("%s, %q", g.name, command), out)
		}
	}
	t.Run("faults", func(t *testing.T) {
		for name, g := range v.faults() {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // most of it is waiting
				v.fault(t, name, g)
			})
		}
	})
	v.silent("the database", v.dump())
	v.away(forms[0])
	v.silent("the state directory", v.tree(filepath.Join(v.dir, "state")))
}

func (v *vault) fault(t *testing.T, name string, g given) {
	look := vault{T: t, program: v.program, dir: v.dir}
	for _, format := range []string{"text", "json"} {
		g.env = append(g.env, "LOCKRUN_LOG=debug", "LOCKRUN_LOG_FORMAT="+format)
		out, code := look.run(g, "--name", "fault", "--", "true")
		if want, _, _ := strings.Cut(name, " "); code != want {
			t.Errorf("ended with %s: %s", code, out)
		}
		look.silent("a run", out)
	}
	for _, command := range [][]string{{"init"}, {"status"}, {"doctor"}, {"release", "--name", "eod", "--reason", "test"}} {
		out, _ := look.run(g.forCommand(command[0]), command...)
		look.silent(command[0], out)
	}
}

// away ends Postgres under a run, whose end then goes to the state directory.
func (v *vault) away(g given) {
	v.Helper()
	up, over := filepath.Join(v.dir, "up"), filepath.Join(v.dir, "over")
	go func() {
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(up); err == nil {
				v.pg.Kill()
				break
			}
		}
		_ = os.WriteFile(over, nil, 0o600)
	}()
	out, code := v.run(g, "--name", "cut", "--date", "2026-02-01", "--ttl", "3s", "--log-format", "json", "-v", "--",
		"sh", "-c", `touch "$0"; until [ -e "$1" ]; do sleep 0.02; done`, up, over)
	if code != "74" && code != "70" {
		v.Errorf("without Postgres the run ended with %s: %s", code, out)
	}
	v.silent("a run that can't be recorded", out)
	if kept, _ := filepath.Glob(filepath.Join(v.dir, "state", "lockrun", "outbox", "*.json")); len(kept) == 0 {
		v.Errorf("nothing is in the outbox: %s", out)
	}
}

// strip takes away what the caller's own environment says.
func strip(out string, env []string) string {
	for _, e := range env {
		out = strings.ReplaceAll(out, e, "")
	}
	return out
}

// forCommand leaves out options that a command on the record does not have.
func (g given) forCommand(name string) given {
	if name != "init" && name != "status" && name != "history" && name != "resolve" {
		return g
	}
	var kept []string
	for i := 0; i < len(g.args); i++ {
		switch {
		case g.args[i] == "--redis":
			i++
		case strings.HasPrefix(g.args[i], "--redis="):
		default:
			kept = append(kept, g.args[i])
		}
	}
	g.args = kept
	return g
}

// dump is every row that lockrun has written.
func (v *vault) dump() string {
	v.Helper()
	var all strings.Builder
	for _, table := range []string{"meta", "lease", "run", "attempt", "audit"} {
		text, err := query(v.pg.DSN(v.database), "SELECT t::text FROM lockrun."+table+" t")
		if err != nil || text == "" {
			v.Fatalf("%s: %q, %v", table, text, err)
		}
		all.WriteString(text)
	}
	return all.String()
}

// tree is what all files below a directory hold.
func (v *vault) tree(dir string) string {
	v.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all.WriteString(path + string(content))
		return err
	})
	if err != nil {
		v.Fatal(err)
	}
	return all.String()
}
