package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockrun/guard"
	"lockrun/guard/outbox"
	"lockrun/guard/postgres"
	"lockrun/guard/sqlite"
	"lockrun/locks"
	"lockrun/runner"
)

// sentJSON is what became of a file of the outbox. The keys are columns of the
// table attempt, and two more.
type sentJSON struct {
	Name    *string `json:"name"`
	RunDate *string `json:"run_date"`
	RunID   *string `json:"run_id"`
	Outcome *string `json:"outcome"`
	File    string  `json:"file"`
	Error   *string `json:"error"` // null: the store has it and the file is gone
}

// sendOutbox stores what runs on this host could not store when they ended.
func (in *invocation) sendOutbox(s *settings, asJSON bool) error {
	for _, name := range []string{"name", "date", "as", "reason"} {
		if len(s.given[name]) > 0 {
			return usagef("--outbox stores all that there is; it takes no --%s", name)
		}
	}
	st, err := readStores(s, in.env)
	if err != nil {
		return err
	}
	dir, err := stateDir(s, in.env)
	if err == nil && dir == "" {
		err = usagef("--outbox needs --state-dir DIR here: neither XDG_STATE_HOME nor HOME is set")
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ledgerBound)
	defer cancel()
	box := outbox.New(dir, st.address())
	all, err := deliver(ctx, box, st)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(in, sentRows(all))
	} else {
		err = in.print(sentLines(all, box.Dir()))
	}
	return errors.Join(err, unsent(all))
}

// deliver tells the store what is in the outbox.
func deliver(ctx context.Context, box *outbox.Box, st stores) ([]outbox.Sent, error) {
	timing, err := locks.NewTiming(time.Minute, -1)
	if err != nil {
		return nil, err
	}
	var store guard.Store
	if st.local {
		store = sqlite.New(st.stateDir, timing)
	} else {
		store = postgres.New(st.postgres, timing)
	}
	defer store.Close()
	return box.Send(ctx, store)
}

func sentRows(all []outbox.Sent) []sentJSON {
	var rows []sentJSON
	for _, s := range all {
		row := sentJSON{Name: orNull(s.Name), RunDate: orNull(s.Date), RunID: orNull(s.RunID), Outcome: orNull(string(s.Outcome)), File: s.Path}
		if s.Err != nil {
			row.Error = orNull(s.Err.Error())
		}
		rows = append(rows, row)
	}
	return rows
}

func sentLines(all []outbox.Sent, dir string) string {
	lines := ""
	for _, s := range all {
		subject := s.Name
		if s.Date != "" {
			subject += " " + s.Date
		}
		var corrupt *outbox.CorruptError
		switch {
		case s.Err == nil:
			lines += escaped(fmt.Sprintf("%s: %s, stored", subject, s.Outcome)) + "\n"
		case errors.As(s.Err, &corrupt):
			lines += escaped(s.Err.Error()+"; kept") + "\n"
		default:
			lines += escaped(fmt.Sprintf("%s: %s, not stored: %v; kept in %s", subject, s.Outcome, s.Err, s.Path)) + "\n"
		}
	}
	if lines == "" {
		return escaped("the outbox in "+dir+" is empty") + "\n"
	}
	return lines
}

// unsent is the error when files are left: that the store is away, or that a
// person has to look at them.
func unsent(all []outbox.Sent) error {
	left := 0
	for _, s := range all {
		var away *locks.UnavailableError
		if errors.As(s.Err, &away) {
			return s.Err
		}
		if s.Err != nil {
			left++
		}
	}
	if left == 0 {
		return nil
	}
	return &exitError{kind: runner.EventUnrecorded, code: runner.ExitUnrecorded, err: fmt.Errorf("%d files of the outbox were not stored and are kept", left)}
}
