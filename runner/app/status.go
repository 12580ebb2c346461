package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lockrun/guard"
)

func (in *invocation) statusCommand() *command {
	return &command{name: "status", help: statusHelp, options: ledgerOptions("name", "redis", "redis-ca", "redis-cert", "redis-key"), run: in.status}
}

// statusJSON is a run that holds a lease, has its name's latest date, or never
// said how it ended. The keys are columns of lease, run and attempt.
type statusJSON struct {
	Name       string   `json:"name"`
	RunDate    *string  `json:"run_date"`
	State      *string  `json:"state"`
	RunID      string   `json:"run_id"`
	Attempt    int      `json:"attempt"`
	Token      int64    `json:"token"`
	Holder     string   `json:"holder"`
	Host       *string  `json:"host"`
	PID        int      `json:"pid"`
	StartedAt  jsonTime `json:"started_at"`
	EndedAt    jsonTime `json:"ended_at"`
	ExitCode   *int     `json:"exit_code"`
	Signal     *string  `json:"signal"`
	Reason     *string  `json:"reason"`
	AcquiredAt jsonTime `json:"acquired_at"`
	RenewedAt  jsonTime `json:"renewed_at"`
	ExpiresAt  jsonTime `json:"expires_at"`
	Held       bool     `json:"held"`
	Note       *string  `json:"note"`
}

// status tells who holds what, and how each name stands.
func (in *invocation) status(s *settings) error {
	name := ""
	if _, from := s.text("name", ""); from != fromDefault {
		var err error
		if name, err = in.readName(s); err != nil {
			return err
		}
	}
	asJSON, err := s.bool("json")
	if err != nil {
		return err
	}
	return in.withLedger(s, func(ctx context.Context, l guard.Ledger, st stores) error {
		rows, err := l.Latest(ctx, name)
		if err != nil {
			return err
		}
		list := guard.Overview(rows)
		for i := range list {
			if left := living(list[i].RunID); left != "" && list[i].State == guard.StateUnknown {
				list[i].Notes = append(list[i].Notes, left)
			}
		}
		if name != "" {
			inRedis, err := in.locksOf(ctx, l, st, name)
			if err != nil {
				return err
			}
			list = append(list, inRedis...)
		}
		if asJSON {
			if err := printJSON(in, statusRows(list)); err != nil {
				return err
			}
		} else if len(list) > 0 {
			if err := in.print(statusTable(list, rows.At).render(in.colour()) + advice(list)); err != nil {
				return err
			}
		}
		switch {
		case len(list) > 0:
			return nil
		case name != "":
			return no(errNoName)
		case asJSON:
			return nil
		}
		return in.print("nothing has run yet\n")
	})
}

// locksOf are the locks in Redis of a name that have no lease. Redis being away,
// or set up wrongly, is a warning: what is on record is the answer.
func (in *invocation) locksOf(ctx context.Context, l guard.Ledger, st stores, name string) ([]guard.Standing, error) {
	q, err := operatorQuorum(st)
	if err != nil {
		in.warn(err)
	}
	if q == nil {
		return nil, nil
	}
	defer q.Close()
	list, away, err := lockStandings(ctx, q, l, name)
	if away != nil {
		in.warn(away)
	}
	return list, err
}

func statusRows(list []guard.Standing) []statusJSON {
	var rows []statusJSON
	for _, s := range list {
		rows = append(rows, statusJSON{
			Name: s.Name, RunDate: orNull(s.Date), State: orNull(string(s.State)), RunID: s.RunID, Attempt: s.Attempt, Token: s.Token,
			Holder: s.Holder, Host: orNull(s.Host), PID: s.PID, StartedAt: jsonTime(s.StartedAt), EndedAt: jsonTime(s.EndedAt),
			ExitCode: s.ExitCode, Signal: orNull(s.Signal), Reason: orNull(s.Reason), AcquiredAt: jsonTime(s.AcquiredAt),
			RenewedAt: jsonTime(s.RenewedAt), ExpiresAt: jsonTime(s.ExpiresAt), Held: s.Held, Note: orNull(strings.Join(s.Notes, "; ")),
		})
	}
	return rows
}

func statusTable(list []guard.Standing, now time.Time) *table {
	t := &table{head: []string{"NAME", "DATE", "STATE", "ATTEMPT", "STARTED", "ENDED", "LEASE", "HOLDER", "PID", "TOKEN", "REASON", "NOTE"}}
	for _, s := range list {
		lease, holder, note := cell{}, text(s.Holder), cell{strings.Join(s.Notes, "; "), odd}
		if s.Held {
			lease = text("held until " + when(now, s.ExpiresAt))
		}
		if holder.text == "" {
			holder = cell{"(none)", odd}
		}
		attempt := cell{}
		if s.Attempt != 0 {
			attempt = number(s.Attempt)
		}
		t.add(text(s.Name), text(s.Date), stateCell(string(s.State), s.ExitCode, s.Signal), attempt, text(when(now, s.StartedAt)),
			text(when(now, s.EndedAt)), lease, holder, number(s.PID), number(s.Token), text(s.Reason), note)
	}
	return t
}

// stateCell makes what needs a person stand out, without colours too.
func stateCell(state string, exitCode *int, signal string) cell {
	how := ""
	switch {
	case exitCode != nil && *exitCode != 0:
		how = fmt.Sprintf(" (exit %d)", *exitCode)
	case signal != "":
		how = " (" + signal + ")"
	}
	switch state {
	case string(guard.Succeeded):
		return cell{state + how, good}
	case string(guard.Running), string(guard.OutcomeNotStarted), "":
		return cell{state + how, plain}
	case string(guard.StateUnknown):
		return cell{"UNKNOWN" + how, odd}
	}
	return cell{strings.ToUpper(state) + how, bad}
}

// outboxFirst says where the end of an unknown run may lie.
func outboxFirst(s *guard.Standing) string {
	where := "that host"
	if s.Host != "" {
		where = s.Host
	}
	return ": first lockrun resolve --outbox by the same user on " + where
}

// advice is the next step for what is unknown.
func advice(list []guard.Standing) string {
	var b strings.Builder
	for _, s := range list {
		if s.State == guard.StateUnknown && s.Date != "" {
			fmt.Fprintf(&b, "\nnobody knows how %s %s ended%s; look at it, then lockrun resolve --name %s --date %s --as succeeded|failed|rerun --reason TEXT",
				escaped(s.Name), escaped(s.Date), escaped(outboxFirst(&s)), escaped(s.Name), escaped(s.Date))
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}
