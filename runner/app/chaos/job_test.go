//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// job is a command that lockrun runs, and how it lives. It travels to the
// process as JSON.
type job struct {
	Life time.Duration
	Code int // its exit code
	// Signal is the one that it dies of by its own hand; 0 = it exits.
	Signal int
	// Heir is how long a deaf descendant in a session of its own outlives it.
	Heir time.Duration
	// Deaf jobs ignore SIGTERM.
	Deaf bool
	// Silent jobs write nothing to the ledger.
	Silent bool
}

const (
	jobName   = "chaos-job"
	jobEnv    = "CHAOS_JOB"    // a job
	fileEnv   = "CHAOS_FILE"   // what it writes to
	ledgerEnv = "CHAOS_LEDGER" // the ledger's connection string
	worldEnv  = "CHAOS_WORLD"  // a mark of all processes of one world
	heirEnv   = "CHAOS_HEIR"   // set in the descendant
)

// beat is the pause between two signs of life.
const beat = 10 * time.Millisecond

// jobMain plays a job. Every sign of life bears the host's wall clock, read
// before it is written: what is on file was true then.
func jobMain() int {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &j); err != nil {
		return complain(err)
	}
	file, err := os.OpenFile(os.Getenv(fileEnv), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return complain(err)
	}
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(file, "%d %s\n", time.Now().UnixMicro(), fmt.Sprintf(format, args...))
	}
	live := func(d time.Duration) {
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for end := time.After(d); ; {
			select {
			case <-tick.C:
				say("beat")
			case <-end:
				return
			}
		}
	}
	if os.Getenv(heirEnv) != "" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		say("heir")
		live(j.Heir)
		return 0
	}
	say("start %s %s %q %s %d", os.Getenv("LOCKRUN_RUN_ID"), os.Getenv("LOCKRUN_TOKEN"),
		os.Getenv("LOCKRUN_NAME"), dash(os.Getenv("LOCKRUN_DATE")), os.Getpid())
	if j.Deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	if j.Heir > 0 {
		if err := beget(); err != nil {
			return complain(err)
		}
	}
	if !j.Silent {
		go keepLedger()
	}
	live(j.Life)
	if j.Signal != 0 {
		say("end signal %d", j.Signal)
		_ = syscall.Kill(os.Getpid(), syscall.Signal(j.Signal))
		select {}
	}
	say("end code %d", j.Code)
	return j.Code
}

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", jobName, err)
	return 99
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// beget starts the descendant.
func beget() error {
	heir := exec.Command("/proc/self/exe")
	heir.Args = []string{jobName}
	heir.Env = append(os.Environ(), heirEnv+"=1")
	heir.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return heir.Start()
}

// entry is one line of the ledger. The fence comes first, so that the numbers of
// two runs of a name can't interleave.
const entry = `
WITH fence AS MATERIALIZED (SELECT lockrun.fence($1::uuid) AS token)
INSERT INTO chaos.ledger (name, run_id, token) SELECT $2, $1::uuid, token FROM fence`

// keepLedger writes to the ledger as often as that works. It never holds up the
// beats.
func keepLedger() {
	for {
		post()
		<-time.After(50 * time.Millisecond)
	}
}

// post keeps a session for as long as it is good for something.
func post() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, os.Getenv(ledgerEnv))
	if err != nil {
		return
	}
	defer func() { _ = c.Close(ctx) }()
	for err == nil {
		_, err = c.Exec(ctx, entry, pgx.QueryExecModeExec, os.Getenv("LOCKRUN_RUN_ID"), os.Getenv("LOCKRUN_NAME"))
		<-time.After(30 * time.Millisecond)
	}
}
