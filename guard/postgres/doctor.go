package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lockrun/guard"
	"lockrun/locks"
)

const (
	// checkConnect bounds the connecting and checkBound all that Examine does.
	checkConnect = 3 * time.Second
	checkBound   = 4500 * time.Millisecond
)

//go:embed doctor.sql
var doctorSQL string

// tables are those of the schema.
var tables = []string{"meta", "lease", "run", "attempt", "audit"}

// needs are the rights that lockrun uses, as roles.sql grants them.
var needs = []struct{ privilege, table string }{
	{"SELECT", "meta"},
	{"SELECT", "lease"}, {"INSERT", "lease"}, {"UPDATE", "lease"},
	{"SELECT", "run"}, {"INSERT", "run"}, {"UPDATE", "run"}, {"DELETE", "run"},
	{"SELECT", "attempt"}, {"INSERT", "attempt"}, {"UPDATE", "attempt"},
	{"SELECT", "audit"}, {"INSERT", "audit"},
}

// ground is the row of doctor.sql.
type ground struct {
	Standby           bool
	ReadOnly          bool
	Fsync             bool
	SynchronousCommit string
	StandbyNames      string
	Standbys          int
	Backend           uint32
	Now               time.Time
	HasSchema         bool
	LostTables        []string
	LostRights        []string
}

// Examine checks a server: that it can be reached and written to, has the schema
// and grants what a run needs, and keeps what it commits. It changes nothing. It
// takes no more than five seconds, however the server hangs. The timing is that
// of a run; maxSkew is how far the host's clock may be from the server's.
func Examine(ctx context.Context, cfg *Config, t locks.Timing, maxSkew time.Duration) []locks.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	e := &examination{cfg: cfg, timing: t, maxSkew: maxSkew, found: locks.Findings{Where: cfg.Address()}}
	e.run(ctx)
	return e.found.List
}

type examination struct {
	cfg     *Config
	timing  locks.Timing
	maxSkew time.Duration
	conn    *pgx.Conn
	found   locks.Findings
}

func (e *examination) run(ctx context.Context) {
	const check = "postgres reachable"
	if err := e.connect(ctx); err != nil {
		e.found.Fail(check, "%s", reasonAndNext(e.cfg.fault(err, checkConnect)))
		return
	}
	defer func() { _ = e.conn.Close(context.WithoutCancel(ctx)) }()
	e.found.OK(check, "it answers")

	g, asked, answered, err := e.look(ctx)
	if err != nil {
		e.found.Fail(check, "it let us in, then: %s", reasonAndNext(e.cfg.Fault(err)))
		return
	}
	e.writable(g)
	e.schema(ctx, g)
	e.durability(g)
	e.pooler(ctx, g)
	e.latency(e.trip(ctx))
	e.clock(g.Now, asked, answered)
}

// connect prefers a server that takes writes, as a run does, and otherwise takes
// any, so that what is wrong with it can be told in full.
func (e *examination) connect(ctx context.Context) error {
	cfg := &Config{conn: e.cfg.conn.Copy()}
	cfg.tune(checkConnect, checkConnect)
	ctx, cancel := context.WithTimeout(ctx, checkConnect)
	defer cancel()
	conn, err := cfg.dial(ctx, nil)
	if err != nil && classify(err) == readOnly {
		cfg.conn.ValidateConnect = nil
		conn, err = cfg.dial(ctx, nil)
	}
	e.conn = conn
	return err
}

// look reads the row of doctor.sql, and the instants before and after, on the
// connection that is open already: one round trip lies between them.
func (e *examination) look(ctx context.Context) (g ground, asked, answered time.Time, err error) {
	var privileges, of []string
	for _, n := range needs {
		privileges, of = append(privileges, n.privilege), append(of, n.table)
	}
	asked = time.Now()
	err = askOnce(ctx, e.conn, func(rows pgx.Rows) (err error) {
		g, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[ground])
		return err
	}, doctorSQL, tables, privileges, of)
	return g, asked, time.Now(), err
}

func (e *examination) writable(g ground) {
	const check = "postgres writable"
	switch {
	case g.Standby:
		e.found.Fail(check, "it is a standby; name the primary, or all hosts of the cluster, in --postgres")
	case g.ReadOnly:
		e.found.Fail(check, "its transactions are read-only; see default_transaction_read_only of server, database and login")
	default:
		e.found.OK(check, "it takes writes")
	}
}

func (e *examination) schema(ctx context.Context, g ground) {
	const check, rights = "postgres schema", "postgres rights"
	switch {
	case !g.HasSchema || len(g.LostTables) == len(tables):
		e.found.Fail(check, "there is none; run \"lockrun init\" with a login that may create it")
		return // rights on nothing say nothing
	case len(g.LostTables) > 0:
		e.found.Fail(check, "it has lost its table %s; restore it from a backup", strings.Join(g.LostTables, ", "))
	default:
		if e.owned(ctx) {
			e.version(ctx, check)
		}
	}
	if len(g.LostRights) > 0 {
		e.found.Fail(rights, "the login lacks %s; grant lockrun_runner to it, \"lockrun init --print\" shows how", strings.Join(g.LostRights, ", "))
		return
	}
	e.found.OK(rights, "the login may do all that a run needs")
}

// owned looks who decides what the schema does. It returns false if nothing of
// that must run as this login: a superuser can lose everything by it.
func (e *examination) owned(ctx context.Context) bool {
	const check = "postgres owner"
	found, err := findIntruder(ctx, e.conn)
	switch {
	case err != nil:
		e.found.Fail(check, "%s", reasonAndNext(e.cfg.Fault(err)))
	case found == nil:
		e.found.OK(check, "the schema belongs to a role that is trusted")
	case found.Superuser:
		e.found.Fail(check, "%s; this login is a superuser, and would run what that role wrote; %s", found.Error(), found.next())
	default:
		e.found.Warn(check, "%s; see that it is meant to decide what lockrun runs", found.Error())
	}
	return err == nil && (found == nil || !found.Superuser)
}

func (e *examination) version(ctx context.Context, check string) {
	err := askOnce(ctx, e.conn, func(rows pgx.Rows) error {
		var n int64
		var version *int32
		_, err := pgx.ForEachRow(rows, []any{&n, &version}, func() error { return e.cfg.schemaFault(n, version, guard.SchemaVersion) })
		return err
	}, readVersion)
	if err != nil {
		e.found.Fail(check, "%s", reasonAndNext(e.cfg.Fault(err)))
		return
	}
	e.found.OK(check, "version %d", guard.SchemaVersion)
}

func (e *examination) durability(g ground) {
	if g.Fsync {
		e.found.OK("postgres fsync", "on")
	} else {
		e.found.Warn("postgres fsync", "off: a crash of the machine may lose dates that were run, and damage the database; set fsync=on")
	}

	switch g.SynchronousCommit {
	case "off", "local", "remote_write":
		e.found.Warn("postgres synchronous_commit", "%s is the default here; lockrun sets it to on in its own transactions, but what the job commits rests on it; set it to on",
			g.SynchronousCommit)
	default:
		e.found.OK("postgres synchronous_commit", "%s", g.SynchronousCommit)
	}

	const check = "postgres standbys"
	switch named := g.StandbyNames != ""; {
	case g.Standby:
	case g.Standbys > 0 && !named:
		e.found.Warn(check, "%d attached, and synchronous_standby_names is empty: a standby that is promoted may lack the last dates; name one that commits wait for", g.Standbys)
	case g.Standbys == 0 && named:
		e.found.Warn(check, "synchronous_standby_names names some and none is attached: commits will wait for it; bring it back")
	case named:
		e.found.OK(check, "commits wait for a standby")
	default:
		e.found.OK(check, "none attached")
	}
}

// pooler tries a transaction of two round trips, as the commands of people use
// them and a fence in a job does. It has changed nothing.
func (e *examination) pooler(ctx context.Context, g ground) {
	const check = "postgres pooler"
	_, err := e.conn.Exec(ctx, "BEGIN")
	if err == nil {
		_, err = e.conn.Exec(ctx, "ROLLBACK")
	}
	// A pooler makes up the id that it gives to its client.
	pooled := g.Backend != e.conn.PgConn().PID()
	var answer *pgconn.PgError
	switch {
	case err != nil && errors.As(err, &answer) && strings.Contains(answer.Message, "statement pooling"):
		e.found.Fail(check, "it pools by statement, so no transaction comes through; set pool_mode=transaction (or session)")
	case err != nil:
		e.found.Fail(check, "a transaction does not come through: %s", reasonAndNext(e.cfg.Fault(err)))
	case pooled:
		e.found.OK(check, "transactions come through the pooler")
	default:
		e.found.OK(check, "none")
	}
}

// trip measures a round trip; that of doctor.sql holds the planning as well.
func (e *examination) trip(ctx context.Context) time.Duration {
	began := time.Now()
	_ = e.conn.Ping(ctx) // what is wrong with the server was told before
	return time.Since(began)
}

func (e *examination) latency(trip time.Duration) {
	const check = "postgres latency"
	shown := trip.Round(10 * time.Microsecond)
	// The first call of a run connects: up to five round trips before its own.
	if 6*trip > e.timing.Call {
		e.found.Warn(check, "a round trip takes %s, a call with its connecting six of them, and it has %s (ttl %s); raise --ttl, or use a nearer server",
			shown, e.timing.Call, e.timing.TTL)
		return
	}
	e.found.OK(check, "a round trip takes %s", shown)
}

// clock compares the server's clock, which was read between two instants, with
// this host's.
func (e *examination) clock(now, asked, answered time.Time) {
	off, direction := time.Duration(0), "ahead of"
	switch {
	case now.Before(asked):
		off = asked.Sub(now)
	case now.After(answered):
		off, direction = now.Sub(answered), "behind"
	}
	if off > e.maxSkew {
		e.found.Warn("clock", "this host's clock is %s %s the server's; dates follow the server; set the clock right", off.Round(time.Second), direction)
		return
	}
	e.found.OK("clock", "this host and the server agree within %s", e.maxSkew)
}

// reasonAndNext drops the name of the server, with which every finding begins,
// and adds what to do.
func reasonAndNext(err error) string {
	var setup *locks.SetupError
	var away *locks.UnavailableError
	next := ""
	switch {
	case errors.As(err, &setup):
		err, next = setup.Err, setup.Next
	case errors.As(err, &away):
		err, next = away.Err, away.Next
		if next == "" {
			next = "see whether the server runs and what is between it and this host"
		}
	}
	if next == "" {
		return err.Error()
	}
	return fmt.Sprintf("%s; %s", err, next)
}
