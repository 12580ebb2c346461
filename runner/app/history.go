package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockrun/guard"
	"lockrun/runner"
)

func (in *invocation) historyCommand() *command {
	return &command{
		name: "history", help: historyHelp, options: ledgerOptions("name", "since", "until", "missing", "tz", "day-starts"), run: in.history,
	}
}

// attemptJSON is a row of the table attempt.
type attemptJSON struct {
	RunID     string   `json:"run_id"`
	Name      string   `json:"name"`
	RunDate   *string  `json:"run_date"`
	Attempt   int      `json:"attempt"`
	Token     int64    `json:"token"`
	Holder    string   `json:"holder"`
	Host      string   `json:"host"`
	PID       int      `json:"pid"`
	OSUser    string   `json:"os_user"`
	Command   []string `json:"command"`
	StartedAt jsonTime `json:"started_at"`
	EndedAt   jsonTime `json:"ended_at"`
	Outcome   string   `json:"outcome"`
	ExitCode  *int     `json:"exit_code"`
	Signal    *string  `json:"signal"`
	Reason    *string  `json:"reason"`
	Version   string   `json:"version"`
}

// missingJSON is a date without a success: a row of the table run, or only its
// key.
type missingJSON struct {
	Name      string   `json:"name"`
	RunDate   string   `json:"run_date"`
	State     *string  `json:"state"`
	RunID     *string  `json:"run_id"`
	Attempt   *int     `json:"attempt"`
	StartedAt jsonTime `json:"started_at"`
	EndedAt   jsonTime `json:"ended_at"`
	ExitCode  *int     `json:"exit_code"`
	Signal    *string  `json:"signal"`
	Reason    *string  `json:"reason"`
}

// history tells what ran, or which dates did not.
func (in *invocation) history(s *settings) error {
	name, err := in.readName(s)
	if err != nil {
		return err
	}
	var c guard.Calendar
	if c.Zone, c.DayStart, err = in.readWallClock(s, true); err != nil {
		return err
	}
	var ends [2]guard.DateSpec
	for i, option := range []string{"since", "until"} {
		given, from := s.text(option, "")
		if from == fromDefault {
			continue
		}
		if ends[i], err = guard.ParseDate(given); err != nil || ends[i].IsScheduled() {
			return usagef("--%s: %w", option, cmpError(err, "scheduled is for runs"))
		}
	}
	unit, err := s.word("missing", "", "", "day", "weekday", "hour", "week", "month")
	if err != nil {
		return err
	}
	asJSON, err := s.bool("json")
	if err != nil {
		return err
	}
	return in.withLedger(s, func(ctx context.Context, l guard.Ledger, _ stores) error {
		rows, err := l.All(ctx, name)
		if err != nil {
			return err
		}
		var p guard.Period
		for i, end := range []*string{&p.Since, &p.Until} {
			if *end, err = fixedDate([]string{"--since", "--until"}[i], ends[i], c, rows.At); err != nil {
				return err
			}
		}
		if p.Backwards() {
			return usagef("--since %s is later than --until %s", p.Since, p.Until)
		}
		if unit != "" {
			return in.missing(rows, name, unit, p, c, asJSON)
		}
		return in.attempts(rows, name, p, c, asJSON)
	})
}

func cmpError(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

func (in *invocation) attempts(rows *guard.Rows, name string, p guard.Period, c guard.Calendar, asJSON bool) error {
	var list []guard.Attempt
	for _, a := range guard.History(rows) {
		if p.Holds(&a, c) {
			list = append(list, a)
		}
	}
	var err error
	switch {
	case asJSON:
		err = printJSON(in, attemptRows(list))
	case len(list) > 0:
		err = in.print(attemptTable(list, rows.At).render(in.colour()))
	}
	if err == nil && len(rows.Attempts) == 0 {
		return no(errNoName)
	}
	if err == nil && len(list) == 0 && !asJSON {
		return in.print("no attempt in that time\n")
	}
	return err
}

func attemptRows(list []guard.Attempt) []attemptJSON {
	var rows []attemptJSON
	for _, a := range list {
		if a.Command == nil {
			a.Command = []string{}
		}
		rows = append(rows, attemptJSON{
			RunID: a.RunID, Name: a.Name, RunDate: orNull(a.Date), Attempt: a.Attempt, Token: a.Token, Holder: a.Holder, Host: a.Host,
			PID: a.PID, OSUser: a.OSUser, Command: a.Command, StartedAt: jsonTime(a.StartedAt), EndedAt: jsonTime(a.EndedAt),
			Outcome: string(a.Outcome), ExitCode: a.ExitCode, Signal: orNull(a.Signal), Reason: orNull(a.Reason), Version: a.Version,
		})
	}
	return rows
}

func attemptTable(list []guard.Attempt, now time.Time) *table {
	t := &table{head: []string{"DATE", "ATTEMPT", "OUTCOME", "STARTED", "ENDED", "HOLDER", "HOST", "PID", "USER", "TOKEN", "COMMAND", "REASON"}}
	for _, a := range list {
		ended := stamp(a.EndedAt)
		if !a.EndedAt.IsZero() {
			ended += " (after " + span(a.EndedAt.Sub(a.StartedAt)) + ")"
		}
		t.add(text(a.Date), number(a.Attempt), stateCell(string(a.Outcome), a.ExitCode, a.Signal), text(when(now, a.StartedAt)), text(ended),
			text(a.Holder), text(a.Host), number(a.PID), text(a.OSUser), number(a.Token), text(shortCommand(a.Command)), text(a.Reason))
	}
	return t
}

// shortCommand is enough of a command to know it by.
func shortCommand(words []string) string {
	const most = 48
	line := []rune(strings.Join(words, " "))
	if len(line) > most {
		return string(line[:most-3]) + "..."
	}
	return string(line)
}

func (in *invocation) missing(rows *guard.Rows, name, unit string, p guard.Period, c guard.Calendar, asJSON bool) error {
	list, err := guard.Missing(rows, name, unit, p, c)
	switch {
	case errors.Is(err, guard.ErrNotFound):
		if asJSON {
			err = errors.Join(err, printJSON[missingJSON](in, nil))
		}
		return no(fmt.Errorf("%w; give --since DATE", err))
	case err != nil:
		return usagef("--missing: %w", err)
	}
	if asJSON {
		err = printJSON(in, missingRows(list))
	} else if len(list) > 0 {
		err = in.print(missingTable(list, rows.At).render(in.colour()))
	}
	if len(list) > 0 {
		in.result = runner.Result{Code: exitNo}
	}
	return err
}

func missingRows(list []guard.Run) []missingJSON {
	var rows []missingJSON
	for _, r := range list {
		rows = append(rows, missingJSON{
			Name: r.Name, RunDate: r.Date, State: orNull(string(r.State)), RunID: orNull(r.RunID), Attempt: orNull(r.Attempt),
			StartedAt: jsonTime(r.StartedAt), EndedAt: jsonTime(r.EndedAt), ExitCode: r.ExitCode, Signal: orNull(r.Signal), Reason: orNull(r.Reason),
		})
	}
	return rows
}

func missingTable(list []guard.Run, now time.Time) *table {
	t := &table{head: []string{"DATE", "STATE", "ATTEMPT", "STARTED", "ENDED", "REASON"}}
	for _, r := range list {
		if r.RunID == "" {
			t.add(text(r.Date), cell{"MISSING", bad}, cell{}, cell{}, cell{}, cell{})
			continue
		}
		t.add(text(r.Date), stateCell(string(r.State), r.ExitCode, r.Signal), number(r.Attempt), text(when(now, r.StartedAt)), text(when(now, r.EndedAt)), text(r.Reason))
	}
	return t
}
