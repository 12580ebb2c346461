// Package outbox keeps, in files of the host, what a run could not tell its
// store: how it ended, or that it never started although the store may think so.
// The next run on the host, or a person, sends it.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// Box is the outbox of a state directory, for one store. It touches nothing
// before the first call.
type Box struct {
	dir   string
	store string
}

// New returns the outbox in stateDir. store names the database for people and
// keeps entries for another one apart; it holds no secret.
func New(stateDir, store string) *Box {
	return &Box{dir: filepath.Join(stateDir, "outbox"), store: store}
}

// Dir is where the entries are.
func (b *Box) Dir() string { return b.dir }

// Waiting counts the entries that are there, for whichever store. A directory
// that this user can't look into is an error; that there is none is not.
func (b *Box) Waiting() (int, error) {
	if _, err := os.Lstat(b.dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return 0, err
	}
	files, err := b.files()
	return len(files), err
}

// KeepEnd writes durably how a run ended at endedAt by the host's clock, and
// returns the file.
func (b *Box) KeepEnd(e *guard.End, endedAt time.Time) (path string, err error) {
	return b.keep(&letter{
		Name: e.Name, RunDate: e.Date, RunID: e.RunID, Outcome: string(e.Outcome), ExitCode: e.ExitCode, Signal: e.Signal,
		Reason: e.Reason, EndedAt: endedAt.UTC(), KeepRunning: e.KeepRunning, AtLeast: e.AtLeast.String(),
	})
}

// KeepNotStarted writes durably that a run which may have taken its date never
// started, and returns the file.
func (b *Box) KeepNotStarted(r *guard.Request, reason string, at time.Time) (path string, err error) {
	return b.keep(&letter{
		Name: r.Name, RunDate: r.Date, RunID: r.RunID, Outcome: string(guard.OutcomeNotStarted), Reason: reason, EndedAt: at.UTC(),
		Holder: r.Holder, Host: r.Host, PID: r.PID, OSUser: r.OSUser, Command: r.Command, Version: r.Version,
	})
}

// ErrOtherStore says that an entry belongs to another database.
var ErrOtherStore = errors.New("belongs to another database")

// CorruptError says that a file can't be an entry. It is kept: it may be all
// that is known of a run.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("outbox file %q: %v", e.Path, e.Err) }
func (e *CorruptError) Unwrap() error { return e.Err }

// Sent is what became of one file.
type Sent struct {
	Path string
	// Name, Date, RunID and Outcome say whose it is; empty for a corrupt file.
	Name, Date, RunID string
	Outcome           guard.Outcome
	// Err is nil when the store has it now and the file is gone. Otherwise the
	// file is kept: *[CorruptError], [ErrOtherStore], or why the store did not
	// take it.
	Err error
}

// Send tells the store what is in the outbox, the oldest first, until ctx ends or
// the store is found to be away. The error is about the directory itself; that
// there is none is no error. What was sent before is harmless when it is sent
// again, and so is what a newer attempt has overtaken.
func (b *Box) Send(ctx context.Context, s guard.Store) ([]Sent, error) {
	files, err := b.files()
	if err != nil {
		return nil, err
	}
	var all []Sent
	for _, path := range files {
		l, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another lockrun has just sent it
		}
		if err != nil {
			all = append(all, Sent{Path: path, Err: &CorruptError{path, err}})
			continue
		}
		sent := Sent{Path: path, Name: l.Name, Date: l.RunDate, RunID: l.RunID, Outcome: guard.Outcome(l.Outcome)}
		if l.Store == b.store {
			sent.Err = l.send(ctx, s)
		} else {
			sent.Err = fmt.Errorf("%w: %s", ErrOtherStore, l.Store)
		}
		var none *guard.NoRunError
		switch {
		case sent.Err == nil:
			sent.Err = remove(path)
		case errors.As(sent.Err, &none):
			sent.Err = fmt.Errorf("%w; if what it had does not come back from a backup, no database can take this result: note it down, then remove the file", sent.Err)
		}
		all = append(all, sent)
		var away *locks.UnavailableError
		if errors.As(sent.Err, &away) || ctx.Err() != nil {
			break
		}
	}
	return all, nil
}

// send stores a letter.
func (l *letter) send(ctx context.Context, s guard.Store) error {
	late := fmt.Sprintf("stored late, from the outbox; it ended at %s by the clock of its host", l.EndedAt.Format(time.RFC3339))
	reason := late
	if l.Reason != "" {
		reason = l.Reason + "; " + late
	}
	if guard.Outcome(l.Outcome) == guard.OutcomeNotStarted {
		return s.Undo(ctx, &guard.Request{
			Name: l.Name, Date: l.RunDate, RunID: l.RunID, Holder: l.Holder, Host: l.Host, PID: l.PID, OSUser: l.OSUser,
			Command: l.Command, Version: l.Version,
		}, reason)
	}
	return s.Finish(ctx, &guard.End{
		Name: l.Name, Date: l.RunDate, RunID: l.RunID, Outcome: guard.Outcome(l.Outcome), ExitCode: l.ExitCode, Signal: l.Signal,
		Reason: reason, KeepRunning: l.KeepRunning, AtLeast: l.atLeast,
	})
}
