package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// timeText has a fixed width, so that times compare as text.
const timeText = "2006-01-02T15:04:05.000000000Z"

func text(t time.Time) string { return t.UTC().Format(timeText) }

// instant reads a time from a column of text.
type instant struct{ time.Time }

// Scan implements [sql.Scanner]; null is the zero time.
func (i *instant) Scan(column any) (err error) {
	switch c := column.(type) {
	case nil:
		i.Time = time.Time{}
	case string:
		i.Time, err = time.Parse(timeText, c)
	default:
		err = fmt.Errorf("a time of type %T", column)
	}
	return err
}

// orNull is null for the empty text.
func orNull(text string) sql.Null[string] { return sql.Null[string]{V: text, Valid: text != ""} }

// arguments is a command as JSON. Bytes that are no UTF-8 are replaced.
func arguments(command []string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // "&&" is easier to read
	if err := e.Encode(command); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// lease reads the lease row of name, or nil.
func (t *transaction) lease(name string) (*locks.Holder, error) {
	h, since, until := locks.Holder{}, instant{}, instant{}
	err := t.row(`SELECT run_id, holder, pid, acquired_at, expires_at, token FROM lease WHERE name = ?`, name).
		Scan(&h.RunID, &h.Text, &h.PID, &since, &until, &h.Token)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	h.Since, h.Until = since.Time, until.Time
	return &h, err
}

// run reads the guard row of name and date, or nil. There is none without a date.
func (t *transaction) run(name, date string) (*guard.Run, error) {
	if date == "" {
		return nil, nil
	}
	r := guard.Run{Name: name, Date: date}
	var started, ended instant
	err := t.row(`
		SELECT r.state, r.run_id, r.attempt, r.started_at, r.ended_at, r.exit_code,
		       coalesce(r.signal, ''), coalesce(r.reason, ''), coalesce(a.holder, ''), coalesce(a.host, ''), coalesce(a.pid, 0)
		  FROM run r LEFT JOIN attempt a ON a.run_id = r.run_id
		 WHERE r.name = ? AND r.run_date = ?`, name, date).
		Scan(&r.State, &r.RunID, &r.Attempt, &started, &ended, &r.ExitCode, &r.Signal, &r.Reason, &r.Holder, &r.Host, &r.PID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	r.StartedAt, r.EndedAt = started.Time, ended.Time
	return &r, err
}

// outcome reads how far the attempt of that run id is; "" = there is none.
func (t *transaction) outcome(runID string) (o guard.Outcome, err error) {
	err = t.row(`SELECT outcome FROM attempt WHERE run_id = ?`, runID).Scan(&o)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return o, err
}

// hasEnded tells whether that run is on record as ended, with all of its
// processes.
func (t *transaction) hasEnded(runID string) (ended bool, err error) {
	err = t.row(`SELECT EXISTS (SELECT 1 FROM attempt WHERE run_id = ? AND ended_at IS NOT NULL)`, runID).Scan(&ended)
	return ended, err
}

// exec runs one statement and tells how many rows it changed.
func (t *transaction) exec(statement string, args ...any) (int64, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	return t.conn.exec(statement, args...)
}

// row returns the first row of a result.
func (t *transaction) row(query string, args ...any) row {
	if err := t.ctx.Err(); err != nil {
		return row{err: err}
	}
	return t.conn.row(query, args...)
}
