package supervise

import (
	"fmt"
	"strconv"
	"strings"

	"lockrun/locks"
)

// What lockrun and the guardian say to each other.
const (
	// To the guardian.
	sayStart     = "start"     // seq, at: deadline, list: variables for the child
	sayExtend    = "extend"    // seq, at: later deadline
	sayTerminate = "terminate" // seq, at: earlier deadline; SIGTERM now
	saySignal    = "signal"    // n: a signal for the child
	// To lockrun.
	sayReady     = "ready"     // the guardian lacks nothing any more
	sayStarted   = "started"   // n: the child's pid
	sayFailed    = "failed"    // n: errno; 0 = it was too late
	sayAck       = "ack"       // seq, at: the deadline that now counts
	sayExited    = "exited"    // n: wait status of the child
	sayLeftovers = "leftovers" // n: how many
	sayTerm      = "term"      // n: why, at: the deadline that now counts
	sayKilling   = "killing"   // repeated while it lasts
	sayStuck     = "stuck"     // list: pids
	sayEmpty     = "empty"     // proof of death, or the end of a run that leaves its leftovers
)

// Why SIGTERM went out.
const (
	becauseDeadline = iota
	becauseAsked
	becauseLeftovers
	becauseOrphaned // lockrun is gone, so nobody hears it
)

// message is one packet on the channel between lockrun and the guardian.
type message struct {
	verb string
	seq  int // number of the request, or of the one acknowledged
	at   locks.Instant
	n    int
	list []string // texts without zero bytes
}

const (
	fixedFields = 4
	maxMessage  = 64 << 10
)

func (m message) encode() []byte {
	fields := append([]string{
		m.verb, strconv.Itoa(m.seq), strconv.FormatInt(int64(m.at), 10), strconv.Itoa(m.n),
	}, m.list...)
	return []byte(strings.Join(fields, "\x00"))
}

func decode(packet []byte) (message, error) {
	fields := strings.Split(string(packet), "\x00")
	if len(fields) < fixedFields {
		return message{}, fmt.Errorf("message %q has %d fields", packet, len(fields))
	}
	seq, err1 := strconv.Atoi(fields[1])
	at, err2 := strconv.ParseInt(fields[2], 10, 64)
	n, err3 := strconv.Atoi(fields[3])
	if err1 != nil || err2 != nil || err3 != nil {
		return message{}, fmt.Errorf("message %q has a field that is no number", packet)
	}
	return message{fields[0], seq, locks.Instant(at), n, fields[fixedFields:]}, nil
}
