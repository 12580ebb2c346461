//go:build linux

package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// witness notices when the machine stands still, as all processes on it do then.
type witness struct {
	done   chan struct{}
	stalls chan []span
}

// A pause is looked for every witnessTick, and is one from stallFrom on.
const (
	witnessTick = 5 * time.Millisecond
	stallFrom   = 40 * time.Millisecond
)

func newWitness() *witness {
	w := &witness{make(chan struct{}), make(chan []span, 1)}
	go func() {
		var all []span
		tick := time.NewTicker(witnessTick)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case <-tick.C:
			case <-w.done:
				w.stalls <- all
				return
			}
			now := time.Now()
			if now.Sub(last) >= stallFrom {
				all = append(all, span{at(last), at(now), "stall"})
			}
			last = now
		}
	}()
	return w
}

func (w *witness) stop() []span {
	close(w.done)
	return <-w.stalls
}

// guardianOf finds the other supervisor by its name among the children of
// lockrun; 0 if it is not there.
func guardianOf(pid int) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		// pid (comm) state ppid
		if !bytes.Contains(text, []byte("(lr-guard) ")) {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return n
		}
	}
	return 0
}

// processesOf lists the processes that have the mark in their environment, which
// none of them can drop.
func processesOf(mark string) (found []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(worldEnv+"="+mark+"\x00")) {
			continue
		}
		dir := filepath.Dir(path)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found = append(found, filepath.Base(dir)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return found
}
