package postgres

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks"
)

// readGrant reads the answer of acquire.sql: the grant, or no row. Its time is in
// seconds since 1970: the text form of a time depends on settings of the session.
func readGrant(rows pgx.Rows) (*guard.Answer, error) {
	a, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (*guard.Answer, error) {
		a := &guard.Answer{Verdict: guard.Granted}
		var at float64
		err := row.Scan(&a.Token, &a.Attempt, &at, nil)
		a.At = time.UnixMicro(int64(math.Round(at * 1e6))) // a float64 is exact enough until the year 2106
		return a, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return a, err
}

// row is the answer of refusal.sql, column by column. Times are microseconds
// since 1970, as above.
type row struct {
	elapsed        time.Duration // since lockrun was started, when it was asked
	schemaRows     int64
	schemaVersion  *int32
	fit, own, over bool
	atUS           int64

	seen         lease
	priorRun     *string
	priorState   *string
	priorAttempt *int
	priorStarted *int64
	priorEnded   *int64
	priorExit    *int
	priorSignal  *string
	priorReason  *string
	priorHolder  *string
	priorHost    *string
	priorPID     *int
	priorOutcome *string
}

// lease is a row of lockrun.lease, or NULLs.
type lease struct {
	run          *string
	holder       *string
	pid          *int
	token        *int64
	since, until *int64
	live, absurd *bool
	ended        *bool // its run is on record as ended, with all of its processes
}

func (l *lease) columns() []any {
	return []any{&l.run, &l.holder, &l.pid, &l.token, &l.since, &l.until, &l.live, &l.absurd, &l.ended}
}

func (r *row) scan(from pgx.Row) error {
	columns := []any{&r.schemaRows, &r.schemaVersion, &r.fit, &r.own, &r.over, &r.atUS}
	columns = append(columns, r.seen.columns()...)
	return from.Scan(append(columns, &r.priorRun, &r.priorState, &r.priorAttempt, &r.priorStarted, &r.priorEnded,
		&r.priorExit, &r.priorSignal, &r.priorReason, &r.priorHolder, &r.priorHost, &r.priorPID, &r.priorOutcome)...)
}

func (r *row) at() time.Time { return time.UnixMicro(r.atUS) }

// held is the live lease that was seen, nil if there was none.
func (r *row) held() *locks.HeldError {
	if r.seen.live == nil || !*r.seen.live {
		return nil
	}
	return &locks.HeldError{Tier: "lease", By: r.seen.by(), Ended: value(r.seen.ended)}
}

// by describes the holder, whoever wrote the row. Without a row there is one
// that is not committed yet.
func (l *lease) by() locks.Holder {
	if l.run == nil {
		return locks.Holder{Text: "a transaction that is still open"}
	}
	by := locks.Holder{
		RunID: *l.run, Text: strings.TrimSpace(*l.holder), PID: *l.pid, Token: *l.token,
		Since: instant(l.since), Until: instant(l.until),
	}
	if by.Text == "" {
		by.Text = "a holder without a name"
	}
	if *l.absurd {
		by.Text += ", with a lease that is absurdly long (see lockrun release)"
	}
	return by
}

// prior is the guard row of another run, nil if there is none.
func (r *row) prior(asked *guard.Request) *guard.Run {
	if r.priorRun == nil {
		return nil
	}
	return &guard.Run{
		Name: asked.Name, Date: asked.Date, State: guard.State(*r.priorState), RunID: *r.priorRun, Attempt: *r.priorAttempt,
		StartedAt: instant(r.priorStarted), EndedAt: instant(r.priorEnded), ExitCode: r.priorExit,
		Signal: value(r.priorSignal), Reason: value(r.priorReason),
		Holder: value(r.priorHolder), Host: value(r.priorHost), PID: value(r.priorPID),
	}
}

func instant(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us)
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
