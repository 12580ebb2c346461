package locktest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Shift makes the server's clock, from its next Start on, differ from the host's
// by a constant offset. The rate stays the host's. It needs libfaketime.
func (p *Postgres) Shift(offset time.Duration) {
	p.tb.Helper()
	pattern := "/usr/lib/*/faketime/libfaketime.so.1"
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		p.tb.Fatalf("this test needs %s, which is not on this machine: apt-get install faketime", pattern)
	}
	program := filepath.Join(p.bin, "postgres")
	if target, err := os.Readlink(filepath.Join(p.bin, "unshifted")); err == nil {
		program = target
	} else {
		p.bin = tempDir(p.tb, p.cred)
		if err := os.Symlink(program, filepath.Join(p.bin, "unshifted")); err != nil {
			p.tb.Fatal(err)
		}
	}
	// Only the wall clock: timers and the monotonic clock are the host's.
	script := fmt.Sprintf("#!/bin/sh\nFAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME='%+fs' LD_PRELOAD=%s exec %s \"$@\"\n", offset.Seconds(), found[0], program)
	if offset == 0 {
		script = fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", program)
	}
	if err := os.WriteFile(filepath.Join(p.bin, "postgres"), []byte(script), 0o755); err != nil {
		p.tb.Fatal(err)
	}
}
