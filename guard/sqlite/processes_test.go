package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"lockrun/guard"
	"lockrun/locks"
)

// TestMain lets the test binary play other lockrun processes on the database in
// SQLITE_DIR. They begin when their standard input ends.
func TestMain(m *testing.M) {
	role := map[string]func(string){"contend": contend, "work": work, "look": look}[os.Getenv("SQLITE_ROLE")]
	if role == nil {
		os.Exit(m.Run())
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	role(os.Getenv("SQLITE_DIR"))
}

func newStore(dir string) *Store {
	return New(dir, locks.Timing{TTL: time.Minute})
}

func request(date string) *guard.Request {
	return &guard.Request{Name: "eod", Date: date, RunID: uuid.NewString(), PID: os.Getpid(), Command: []string{"true"}, TTL: time.Minute}
}

// contend is four contenders for one date, each with a store of its own.
func contend(dir string) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			s, r := newStore(dir), request("2026-03-01")
			defer s.Close()
			switch a, err := s.Acquire(ctx, r); {
			case err != nil:
				fmt.Println("error", err)
			case a.Verdict == guard.Granted:
				fmt.Println("granted", r.RunID)
			case a.Verdict == guard.Held:
				fmt.Println("held", a.Held.By.RunID)
			default:
				fmt.Println("verdict", a.Verdict)
			}
		})
	}
	wg.Wait()
}

// look says what stands in the way of a transaction.
func look(dir string) {
	s := newStore(dir)
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fmt.Print(s.transact(ctx, func(*transaction) error { return nil }))
}

// work runs one date after the other, and says so, until it is killed. Every
// other run opens the database anew.
func work(dir string) {
	s := newStore(dir)
	for n := 0; ; n++ {
		if n%2 == 0 {
			s.Close()
		}
		r := request(time.Now().Format(time.RFC3339Nano))
		_, err := s.Acquire(context.Background(), r)
		err = errors.Join(err, s.Finish(context.Background(), &guard.End{
			Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeSucceeded, ExitCode: new(int),
		}))
		if err != nil {
			fmt.Println("error", err)
			return
		}
		fmt.Println("done", r.RunID)
	}
}

// process is another process in that role; begin lets it go.
func process(t *testing.T, role, dir string) (other *exec.Cmd, out io.Reader, begin func()) {
	t.Helper()
	other = exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "SQLITE_ROLE="+role, "SQLITE_DIR="+dir)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	return other, out, func() { _ = in.Close() }
}

func TestProcesses(t *testing.T) {
	for range 3 {
		dir := t.TempDir()
		var outs []io.Reader
		var begins []func()
		for range 8 {
			_, out, begin := process(t, "contend", dir)
			outs, begins = append(outs, out), append(begins, begin)
		}
		for _, begin := range begins { // the database itself is made by whoever is first
			begin()
		}
		var said []string
		for _, out := range outs {
			text, err := io.ReadAll(out)
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, strings.Split(strings.TrimSpace(string(text)), "\n")...)
		}
		count := map[string]int{}
		for _, line := range said {
			count[line]++
		}
		if len(said) != 32 || len(count) != 2 {
			t.Fatalf("32 contenders said %v", count)
		}
		for line, n := range count {
			run, won := strings.CutPrefix(line, "granted ")
			if won && (n != 1 || count["held "+run] != 31) {
				t.Fatalf("32 contenders said %v", count)
			}
		}
	}
}

func TestKilled(t *testing.T) {
	dir := t.TempDir()
	var done []string
	for round := range 8 {
		other, out, begin := process(t, "work", dir)
		begin()
		lines := bufio.NewScanner(out)
		for range 3 + 5*round { // it is killed at some point of the next run
			if !lines.Scan() {
				t.Fatalf("the worker ended: %v", lines.Err())
			}
			run, ok := strings.CutPrefix(lines.Text(), "done ")
			if !ok {
				t.Fatalf("the worker says %q", lines.Text())
			}
			done = append(done, run)
		}
		if err := other.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = other.Wait()

		s := newStore(dir)
		err := s.transact(t.Context(), func(tx *transaction) error {
			var check string
			if err := tx.row("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
				return fmt.Errorf("integrity check says %q: %w", check, err)
			}
			for _, run := range done {
				if o, err := tx.outcome(run); err != nil || o != guard.OutcomeSucceeded {
					return fmt.Errorf("run %s is recorded as %q: %w", run, o, err)
				}
			}
			// Acquire is whole or not there at all; its lease dies with time.
			var half int
			if err := tx.row(`SELECT count(*) FROM run r LEFT JOIN attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
				WHERE a.run_id IS NULL OR r.state <> a.outcome`).Scan(&half); err != nil || half != 0 {
				return fmt.Errorf("%d half runs: %w", half, err)
			}
			_, err := tx.exec(`UPDATE lease SET expires_at = acquired_at`)
			return err
		})
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}
