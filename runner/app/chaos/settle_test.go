//go:build linux

package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds what has to happen when all is quiet.
const patience = 20 * time.Second

// settle waits until all is quiet, delivers what the outboxes have, asks for
// every name and date once more, and notes what is left behind.
func (w *world) settle(p *plan, h *history) {
	left := func(format string, args ...any) { h.Left = append(h.Left, fmt.Sprintf(format, args...)) }
	if !poll(patience, func() bool { return len(processesOf(w.mark)) == 0 }) {
		left("processes: %q", processesOf(w.mark))
	}
	w.deliver(left)
	// Who was killed leaves its locks to expire, and nobody else leaves any.
	if !poll(p.TTL+patience, func() bool { return w.leases() == "" && w.keys() == "" }) {
		left("leases %q, keys %q", w.leases(), w.keys())
	}
	if p.Closing {
		w.closing(p, h)
		if found := w.leases() + w.keys(); found != "" {
			left("after the last runs: %s", found)
		}
	}
	if found := processesOf(w.mark); len(found) > 0 {
		left("processes: %q", found)
	}
	if !poll(patience, func() bool { return w.connections() == "" }) {
		left("connections to Redis: %s", w.connections())
	}
	if w.pooler == nil && !poll(patience, func() bool { return w.sessions() == "" }) {
		left("sessions: %s", w.sessions())
	}
}

// deliver empties the outbox of each host.
func (w *world) deliver(left func(string, ...any)) {
	for host := range hosts {
		if out, err := w.command(host, "resolve", "--outbox").CombinedOutput(); err != nil {
			left("outbox of host %d: %v\n%s", host, err, out)
		}
	}
}

// closing asks for each name and date once more.
func (w *world) closing(p *plan, h *history) {
	seen := map[string]bool{}
	for _, r := range p.Runs {
		if seen[r.Name+r.Date] {
			continue
		}
		seen[r.Name+r.Date] = true
		r.ID = fmt.Sprintf("last-%d", len(seen))
		r.Job, r.Harm, r.Calm, r.Wait, r.MaxRuntime = job{Life: 20 * time.Millisecond}, nil, true, 0, 0
		r.Rerun, r.Leftovers = "", ""
		h.Invocations = append(h.Invocations, w.invoke(p, r))
	}
}

// rows asks the database and returns one text a row, "" for none.
func (w *world) rows(sql string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := w.connect(ctx)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = c.Close(ctx) }()
	all, err := c.Query(ctx, sql)
	if err != nil {
		return err.Error()
	}
	texts, err := pgx.CollectRows(all, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return strings.Join(texts, "; ")
}

func (w *world) leases() string {
	return w.rows(`SELECT name || ' until ' || expires_at::text FROM lockrun.lease WHERE expires_at > clock_timestamp()`)
}

func (w *world) sessions() string {
	return w.rows(`SELECT coalesce(query, '') FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
}

// keys lists the locks in Redis, and whatever would stay there for ever.
func (w *world) keys() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := ""
	for i, r := range w.redis {
		c := r.Client()
		keys, err := c.Keys(ctx, "*").Result()
		for _, key := range keys {
			if strings.HasPrefix(key, "lockrun:lock:") || c.TTL(ctx, key).Val() == -1 {
				found += fmt.Sprintf("node %d: %s; ", i, key)
			}
		}
		_ = c.Close()
		if err != nil {
			found += fmt.Sprintf("node %d: %v; ", i, err)
		}
	}
	return found
}

// connections lists who is connected to Redis, but for the one who asks.
func (w *world) connections() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := ""
	for i, r := range w.redis {
		c := r.Client()
		list, err := c.ClientList(ctx).Result()
		_ = c.Close()
		if n := strings.Count(list, "\n"); err != nil || n > 1 {
			found += fmt.Sprintf("node %d: %d, %v; ", i, n, err)
		}
	}
	return found
}

// readLog finds what the invocation said about things that the judge can't see.
func (i *invocation) readLog(path string) {
	text, _ := os.ReadFile(path)
	i.Log = string(text)
	i.MayBeTaken = strings.Contains(i.Log, "the date may be taken by this run")
	i.Unproved = strings.Contains(i.Log, "the child could not be killed")
	i.Unkept = strings.Contains(i.Log, "the outbox does not take it")
}

// readChild reads a job's account.
func readChild(id, path string) *child {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var c *child
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasSuffix(line, "\n") {
			continue
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			continue
		}
		switch {
		case f[1] == "start" && len(f) == 7:
			token, _ := strconv.ParseInt(f[3], 10, 64)
			name, _ := strconv.Unquote(f[4])
			if c != nil {
				name += " started twice"
			}
			c = &child{Invocation: id, RunID: f[2], Token: token, Name: name, Date: strings.Trim(f[5], "-"), Start: moment(n)}
		case f[1] == "end" && len(f) == 4 && c != nil:
			number, _ := strconv.Atoi(f[3])
			if c.End = (&ending{Code: number}); f[2] == "signal" {
				c.End = &ending{Signal: number}
			}
		}
		if c != nil {
			c.Last = max(c.Last, moment(n))
		}
	}
	return c
}

// read collects what the jobs and the database have.
func (w *world) read(h *history) {
	for _, i := range h.Invocations {
		if c := readChild(i.ID, w.accountOf(i.ID)); c != nil {
			h.Children = append(h.Children, *c)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := w.connect(ctx)
	w.must(err)
	defer func() { _ = c.Close(ctx) }()
	offset := w.shift.Microseconds()
	h.Leases = collect[lease](ctx, w, c, `
SELECT name, run_id, token, (extract(epoch FROM acquired) * 1000000)::bigint - $1::bigint AS acquired,
       (extract(epoch FROM at) * 1000000)::bigint - $1::bigint AS at, (extract(epoch FROM until) * 1000000)::bigint - $1::bigint AS until
  FROM chaos.lease ORDER BY seq`, offset)
	h.Attempts = collect[attempt](ctx, w, c, `
SELECT holder AS invocation, run_id::text, name, coalesce(run_date, '') AS date, token, outcome, coalesce(exit_code, -1) AS code, coalesce(signal, '') AS signal
  FROM lockrun.attempt`)
	h.Dates = collect[date](ctx, w, c, `SELECT name, run_date AS date, state, run_id::text FROM lockrun.run`)
	h.Ledger = collect[posting](ctx, w, c, `SELECT number, name, run_id::text, token FROM chaos.ledger`)
	slices.SortFunc(h.Ledger, func(a, b posting) int { return cmp.Compare(a.Number, b.Number) })
}

func collect[T any](ctx context.Context, w *world, c *pgx.Conn, sql string, args ...any) []T {
	rows, err := c.Query(ctx, sql, args...)
	w.must(err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
	w.must(err)
	return all
}

// keepEvidence copies what the judge does not print.
func (w *world) keepEvidence(seed uint64, h *history) string {
	text, _ := json.MarshalIndent(h, "", " ")
	_ = os.WriteFile(filepath.Join(w.dir, "history.json"), text, 0o600)
	to := filepath.Join(os.TempDir(), fmt.Sprintf("lockrun-chaos-seed-%d", seed))
	_ = os.RemoveAll(to)
	_ = os.CopyFS(to, os.DirFS(w.dir))
	return to
}
