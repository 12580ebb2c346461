package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"lockrun/guard"
	"lockrun/guard/postgres"
	"lockrun/guard/sqlite"
	"lockrun/locks"
	"lockrun/runner"
)

// ledgerBound is how long a command of people may take in all.
const ledgerBound = 30 * time.Second

// The exit codes of commands that are no run.
const exitNo = 1 // the answer is no: not found, something is missing

// ledgerOptions are what every command on the record takes.
func ledgerOptions(names ...string) []option {
	return pick(append([]string{"postgres", "local", "state-dir", "config", "json"}, names...)...)
}

// withLedger runs do with the ledger that the options name.
func (in *invocation) withLedger(s *settings, do func(ctx context.Context, l guard.Ledger, st stores) error) error {
	st, err := readStores(s, in.env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ledgerBound)
	defer cancel()
	var l guard.Ledger
	if st.local {
		l = sqlite.NewLedger(st.stateDir)
	} else {
		l = postgres.NewLedger(st.postgres)
	}
	defer l.Close()
	return do(ctx, l, st)
}

// no is an answer for people that is an exit code for scripts.
func no(err error) error { return &exitError{kind: runner.EventRefused, code: exitNo, err: err} }

// holderText tells who holds, for a refusal.
func holderText(h *locks.HeldError) string {
	return heldText(h, "so nothing was changed")
}

func heldText(h *locks.HeldError, outcome string) string {
	return held(runner.Event{Held: h, Note: outcome})
}

// actor is who uses this command: the user and the host.
func actor() string { return osUser() + "@" + hostName() }

// errNoName says that the record has nothing of a name.
var errNoName = errors.New("nothing is known of this name")

// readName reads --name as a run does.
func (in *invocation) readName(s *settings) (string, error) {
	if _, from := s.text("name", ""); from == fromDefault && s.command != nil {
		return "", usagef("--name is missing: %s", s.command.usage())
	}
	c := &runConfig{}
	if err := c.readName(s); err != nil {
		return "", err
	}
	in.log.name = c.name
	return c.name, nil
}

// maxReason bounds the text that goes to the record.
const maxReason = 1000

// readReason reads --reason: a change without one is refused.
func readReason(s *settings) (string, error) {
	reason, _ := s.text("reason", "")
	switch {
	case strings.TrimSpace(reason) == "":
		return "", usagef("--reason is missing: say why, for those who read the audit")
	case len(reason) > maxReason:
		return "", usagef("--reason is longer than %d bytes", maxReason)
	case strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return "", usagef("--reason: %q holds characters that can't be printed", reason)
	}
	return reason, nil
}

// fixedDate is a date as it is stored; one that is a word gets the meaning that
// it has now by the store's clock.
func fixedDate(where string, d guard.DateSpec, c guard.Calendar, now time.Time) (string, error) {
	if !d.IsWord() {
		return d.Fixed(), nil
	}
	r, err := d.At(now, c.Zone, c.DayStart)
	if err != nil {
		return "", usagef("%s: %w", where, err)
	}
	return r.Date, nil
}

// living says which processes of a run are still there, "" for none: whoever
// reads it is about to decide that the run is over.
func living(runID string) string {
	pids := runner.Living(runID)
	if len(pids) == 0 {
		return ""
	}
	return fmt.Sprintf("processes of that run still live on this host: %v", pids)
}

// auditJSON is a row of the table audit.
type auditJSON struct {
	At      jsonTime `json:"at"`
	Actor   string   `json:"actor"`
	Action  string   `json:"action"`
	Name    string   `json:"name"`
	RunDate *string  `json:"run_date"`
	Reason  string   `json:"reason"`
	Before  *rawJSON `json:"before"`
	After   *rawJSON `json:"after"`
}

// rawJSON is JSON as the database has it.
type rawJSON string

// MarshalJSON implements [json.Marshaler].
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func auditRows(list []*guard.Audit) []auditJSON {
	var rows []auditJSON
	for _, a := range list {
		rows = append(rows, auditJSON{
			At: jsonTime(a.At), Actor: a.Actor, Action: a.Action, Name: a.Name, RunDate: orNull(a.Date), Reason: a.Reason,
			Before: orNull(rawJSON(a.Before)), After: orNull(rawJSON(a.After)),
		})
	}
	return rows
}
