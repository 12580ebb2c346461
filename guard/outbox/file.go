package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"lockrun/guard"
	"lockrun/locks/statedir"
)

// format is the version of what is in a file.
const format = 1

// letter is what a file holds. The keys are the columns of the table attempt.
type letter struct {
	Format      int       `json:"format"`
	Store       string    `json:"store"`
	Name        string    `json:"name"`
	RunDate     string    `json:"run_date"`
	RunID       string    `json:"run_id"`
	Outcome     string    `json:"outcome"`
	ExitCode    *int      `json:"exit_code"`
	Signal      string    `json:"signal"`
	Reason      string    `json:"reason"`
	EndedAt     time.Time `json:"ended_at"` // by the host's clock
	KeepRunning bool      `json:"keep_running,omitempty"`
	AtLeast     string    `json:"at_least,omitempty"`
	Holder      string    `json:"holder,omitempty"`
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	OSUser      string    `json:"os_user,omitempty"`
	Command     []string  `json:"command,omitempty"`
	Version     string    `json:"version,omitempty"`

	atLeast time.Duration
}

const (
	suffix = ".json"
	// unfinished marks a file that is being written; one that stays is what a
	// crash has left.
	unfinished = ".part"
	// abandoned is the age from which nobody is writing it any more.
	abandoned = time.Minute
	// maxFile is more than the largest entry: a command line of 2 MiB, escaped.
	maxFile = 16 << 20
)

// keep writes a letter so that it is there as a whole or not at all, whatever
// happens to the host.
func (b *Box) keep(l *letter) (path string, err error) {
	l.Format, l.Store = format, b.store
	content, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return "", err
	}
	if err := statedir.Ensure(filepath.Dir(b.dir)); err != nil {
		return "", err
	}
	if err := statedir.Ensure(b.dir); err != nil {
		return "", err
	}
	path = filepath.Join(b.dir, l.RunID+suffix)
	f, err := os.OpenFile(path+unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(append(content, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+unfinished, path)
	}
	if err == nil {
		err = statedir.Sync(b.dir)
	}
	if err != nil {
		_ = os.Remove(path + unfinished)
		return "", err
	}
	return path, nil
}

// files lists what is in the outbox, the oldest first.
func (b *Box) files() ([]string, error) {
	if _, err := os.Lstat(b.dir); err != nil {
		return nil, nil // none, or none that this user could have written to
	}
	if err := statedir.Ensure(b.dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, err
	}
	type file struct {
		path    string
		written time.Time
	}
	var list []file
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another lockrun has just sent it
		}
		left := strings.HasSuffix(e.Name(), unfinished) && time.Since(info.ModTime()) > abandoned
		if strings.HasSuffix(e.Name(), suffix) || left {
			list = append(list, file{filepath.Join(b.dir, e.Name()), info.ModTime()})
		}
	}
	slices.SortStableFunc(list, func(x, y file) int { return x.written.Compare(y.written) })
	paths := make([]string, len(list))
	for i, f := range list {
		paths[i] = f.path
	}
	return paths, nil
}

// outcomes are those that a letter can bring.
var outcomes = []guard.Outcome{
	guard.OutcomeSucceeded, guard.OutcomeFailed, guard.OutcomeLost, guard.OutcomeTimeout, guard.OutcomeNotStarted,
}

// read takes a file only if it is all that keep writes.
func read(path string) (*letter, error) {
	if strings.HasSuffix(path, unfinished) {
		return nil, errors.New("was not written to its end")
	}
	if err := statedir.CheckFile(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	var l letter
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("is no entry of an outbox: %w", err)
	}
	if l.AtLeast != "" {
		l.atLeast, err = time.ParseDuration(l.AtLeast)
	}
	id, idErr := uuid.Parse(l.RunID)
	switch {
	case l.Format != format:
		return nil, fmt.Errorf("has the format %d, this lockrun reads %d", l.Format, format)
	case d.More(), err != nil, idErr != nil, l.Name == "", l.atLeast < 0, !slices.Contains(outcomes, guard.Outcome(l.Outcome)):
		return nil, errors.New("is no entry of an outbox")
	case id.String()+suffix != filepath.Base(path):
		return nil, errors.New("is named after another run than the one in it")
	}
	return &l, nil
}

// remove takes a file away that the store has now.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it is stored, but its file can't be removed: %w", err)
	}
	return nil
}
