package blackbox

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"lockrun/locks/locktest"
)

// evil is what must reach no terminal and no log as it is: escapes of seven and
// of eight bits, ends of lines, a reversal of the reading direction, marks that
// can't be seen, a tag beyond the first plane.
const evil = "\x1b]0;title\x07\x1b[2J\u009b31m\r\nlockrun: all is well\u202e\u2066\u200b\u2028\u0085\x7f\U000e0041"

// long is more than anybody wants to read.
var long = strings.Repeat("A", 1<<20)

// target is lockrun in one mode, and a way to write what others might.
type target struct {
	*testing.T
	program string
	env     []string
	write   func(query string, args ...any)
}

func (h *target) run(args ...string) (out, code string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TZ=UTC", "LOCKRUN_CONFIG=/dev/null"}, h.env...)
	text, err := cmd.CombinedOutput()
	return string(text), statusText(err)
}

// tame runs lockrun and fails unless it ends with the code and what it says is
// harmless. A text that was said must be there in its harmless form.
func (h *target) tame(code, said string, args ...string) {
	h.Helper()
	for _, format := range []string{"text", "json"} {
		if format == "json" && (code == "0" && args[0] != "--name") {
			break // nothing is logged
		}
		out, got := h.run2(format, args)
		if got != code {
			h.Errorf("%.80q ended with %s: %.400q", args, got, out)
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(out) {
			h.Errorf("%.80q, %s: raw at %d: %.400q", args, format, i, out[max(0, i-50):])
		}
		if format == "text" && !strings.Contains(out, said) {
			h.Errorf("%.80q, %s: %.400q lacks %q", args, format, out, said)
		}
		if args[len(args)-1] == "--json" { // the record itself, as it is
			continue
		}
		for line := range strings.Lines(out) {
			if len(line) > 24_000 { // twelve columns of a table
				h.Errorf("%.80q, %s: a line of %d bytes", args, format, len(line))
			}
		}
	}
}

func (h *target) run2(format string, args []string) (out, code string) {
	h.Helper()
	env := h.env
	defer func() { h.env = env }()
	h.env = append(h.env[:len(h.env):len(h.env)], "LOCKRUN_LOG_FORMAT="+format, "LOCKRUN_LOG=debug")
	return h.run(args...)
}

// TestHostileRecords lets others write to the record and to the locks.
func TestHostileRecords(t *testing.T) {
	program := build(t)
	pg := locktest.SharedPostgres(t)
	dsn := pg.Database(t)
	nodes := locktest.StartRedisNodes(t, 1)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	state := filepath.Join(t.TempDir(), "state")
	file, err := sql.Open("sqlite", "file:"+filepath.Join(state, "lockrun.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()

	servers := &target{t, program, []string{"LOCKRUN_POSTGRES=" + dsn, "LOCKRUN_REDIS=" + nodes[0].URL(), "XDG_STATE_HOME=" + state},
		func(query string, args ...any) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), query, args...); err != nil {
				t.Fatal(query, err)
			}
		}}
	local := &target{t, program, []string{"LOCKRUN_LOCAL=1", "LOCKRUN_STATE_DIR=" + state},
		func(query string, args ...any) {
			t.Helper()
			query = strings.NewReplacer("lockrun.", "", "ARRAY[$1]", "'[]'", "$1::text", "$1").Replace(query)
			if _, err := file.Exec(query, args...); err != nil {
				t.Fatal(query, err)
			}
		}}
	for mode, h := range map[string]*target{"servers": servers, "local": local} {
		t.Run(mode, func(t *testing.T) {
			h.T = t
			if out, code := h.run("init"); mode == "servers" && code != "0" {
				t.Fatal(out)
			}
			for _, name := range []string{"eod", "bad"} {
				h.run("--name", name, "--date", "2026-01-01", "--", "true")
				h.run("--name", name, "--date", "2026-01-02", "--", "false")
				h.run("resolve", "--name", name, "--date", "2026-01-02", "--as", "failed", "--reason", "test")
			}
			for _, text := range []string{evil, long} {
				h.write("UPDATE lockrun.lease SET holder = $1 WHERE name = 'eod'", text)
				h.write("UPDATE lockrun.run SET reason = $1::text, signal = $1::text WHERE name = 'eod'", text)
				h.write("UPDATE lockrun.attempt SET holder = $1::text, host = $1::text, os_user = $1::text, reason = $1::text, signal = $1::text, version = $1::text, command = ARRAY[$1]"+
					" WHERE name = 'eod'", text)
				h.tame("0", "eod", "status")
				h.tame("0", "eod", "status", "--json")
				h.tame("0", "2026-01-02", "history", "--name", "eod")
				h.tame("0", "2026-01-02", "history", "--name", "eod", "--json")
				h.tame("1", "2026-01-02", "history", "--name", "eod", "--missing", "day")
				h.tame("0", "already done", "--name", "eod", "--date", "2026-01-01", "--", "true")
				h.tame("77", "an earlier attempt failed", "--name", "eod", "--date", "2026-01-02", "--", "true")
				h.tame("1", "it has succeeded", "resolve", "--name", "eod", "--date", "2026-01-01", "--as", "rerun", "--reason", "x")
				h.tame("0", "the lease of", "release", "--name", "eod", "--reason", "x")
				if mode == "servers" {
					h.write("UPDATE lockrun.lease SET expires_at = clock_timestamp() + interval '1 minute', renewed_at = clock_timestamp() WHERE name = 'eod'")
				} else {
					until := time.Now().UTC().Add(time.Minute).Format("2006-01-02T15:04:05.000000000Z")
					h.write("UPDATE lockrun.lease SET expires_at = $1 WHERE name = 'eod'", until)
				}
				h.tame("75", "held by", "--name", "eod", "--date", "2026-01-03", "--", "true")
				h.tame("75", "held by", "resolve", "--name", "eod", "--date", "2026-01-02", "--as", "rerun", "--reason", "x")
				h.tame("0", "is ended", "release", "--name", "eod", "--reason", "x", "--force")
				// Names are checked on the command line, not in the table.
				text = strings.ToValidUTF8(text[:min(len(text), 4000)], "") // an index takes no more
				h.write("UPDATE lockrun.lease SET name = $1 WHERE name = 'bad'", text)
				h.write("UPDATE lockrun.run SET name = $1::text, run_date = $1::text || run_date WHERE name = 'bad'", text)
				h.write("UPDATE lockrun.attempt SET name = $1::text, run_date = $1::text || run_date WHERE name = 'bad'", text)
				h.tame("0", "", "status")
				h.tame("0", "", "status", "--json")
				h.write("UPDATE lockrun.lease SET name = 'bad' WHERE name = $1", text)
				h.write("UPDATE lockrun.run SET name = 'bad' WHERE name = $1", text)
				h.write("UPDATE lockrun.attempt SET name = 'bad' WHERE name = $1", text)
			}
		})
	}

	t.Run("redis_values", func(t *testing.T) {
		servers.T = t
		client := nodes[0].Client()
		defer func() { _ = client.Close() }()
		ours := uuid.NewString() + " 7 2026-01-01T00:00:00.000000Z "
		for _, value := range []string{ours + evil, ours + long, evil, long, "\xff\xfe", ours + "\xff\x1b[2J"} {
			if err := client.Set(t.Context(), "lockrun:lock:value", value, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			servers.tame("75", "held by", "--name", "value", "--date", "2026-01-01", "--", "true")
		}
	})

	t.Run("postgres_errors", func(t *testing.T) {
		servers.T = t
		servers.write("CREATE FUNCTION lockrun.shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING MESSAGE = current_setting('evil.text'), ERRCODE = '42501'; END $$")
		servers.write("CREATE TRIGGER shout BEFORE INSERT OR UPDATE ON lockrun.lease FOR EACH ROW EXECUTE FUNCTION lockrun.shout()")
		for _, text := range []string{evil, long} {
			servers.write("DO $do$ BEGIN EXECUTE format('ALTER DATABASE %I SET evil.text = %L', current_database(), '" + strings.ReplaceAll(text, "'", "''") + "'); END $do$")
			servers.tame("78", "lockrun_runner", "--name", "shout", "--", "true")
		}
	})

	t.Run("redis_errors", func(t *testing.T) {
		for _, answer := range []string{"-ERR " + evil[:20] + "\r\n", "-NOPERM " + long + "\r\n", "$-7\r\n", "*999999\r\n", evil, "+" + long + "\r\n", ":x\r\n"} {
			t.Run("", func(t *testing.T) {
				t.Parallel() // some of it is waiting
				parrot := locktest.FakeRedis(t, func([]string) string { return answer })
				h := &target{t, program, []string{
					"LOCKRUN_POSTGRES=" + dsn, "LOCKRUN_REDIS=redis://u:pw@" + parrot, "LOCKRUN_STATE_DIR=" + state,
				}, nil}
				code := "69"
				if strings.HasPrefix(answer, "-NOPERM") {
					code = "78"
				}
				h.tame(code, "nodes", "--name", "x", "--ttl", "2s", "--", "true")
				h.tame("78", "redis reachable", "doctor")
			})
		}
	})
}

// TestHostileWords has all that a caller can write.
func TestHostileWords(t *testing.T) {
	h := &target{t, build(t), []string{"LOCKRUN_LOCAL=1", "LOCKRUN_STATE_DIR=" + filepath.Join(t.TempDir(), "state")}, nil}
	const most = 100 << 10 // what the kernel takes for one word is little more
	for _, word := range []string{strings.ReplaceAll(evil, "\x00", ""), long[:most], "\xff\xfe", "\x1b[2J"} {
		for _, args := range [][]string{
			{"--name", word}, {"--date", word}, {"--tz", word, "--date", "today"}, {"--day-starts", word}, {"--ttl", word},
			{"--kill-after", word}, {"--wait", word}, {"--holder", word}, {"--rerun", word}, {"--leftovers", word}, {"--quorum", word},
			{"-E", word}, {"--log-format", word}, {"--config", word}, {"--" + word}, {"-" + word}, {"---" + word}, {word},
			{"--redis", word}, {"--postgres", word}, {"--postgres", "postgres://h/d?" + word + "=1"}, {"--postgres", "file:" + word},
		} {
			if args[0] != "--name" {
				args = append([]string{"--name", "x"}, args...)
			}
			h.tame("64", "lockrun: ", append(args, "--", "true")...)
		}
		for _, args := range [][]string{
			{"status", word}, {word}, {"status", "--name", word}, {"status", "--" + word},
			{"resolve", "--name", "x", "--date", "2026-01-01", "--as", word, "--reason", "x"},
			{"resolve", "--name", "x", "--date", "2026-01-01", "--as", "failed", "--reason", word},
			{"release", "--name", "x", "--reason", word}, {"history", "--name", "x", "--since", word}, {"completion", word},
		} {
			h.tame("64", "lockrun: ", args...)
		}
		code := "127"
		if len(word) > 4096 {
			code = "126" // no path can be so long
		}
		h.tame(code, "nothing started", "--name", "x", "--", "/no/such/"+word)
	}
}
