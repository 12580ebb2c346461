package quorum

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// kind says what sort of fault a node has.
type kind string

const (
	away    kind = "away"    // unreachable, hung, or refusing for now: asking later may help
	set     kind = "set-up"  // login, rights, TLS: asking again won't help
	foreign kind = "foreign" // a key in our place that lockrun did not make
)

// replies are the errors of a server that need explaining, by their first word.
var replies = map[string]struct {
	kind kind
	text string
}{
	"NOAUTH":      {set, "it asks for a password"},
	"WRONGPASS":   {set, "it refuses the user name or the password"},
	"NOPERM":      {set, "the user lacks the right"},
	"DENIED":      {set, "it is in protected mode"},
	"MOVED":       {set, "it is a node of a Redis Cluster, not an independent master"},
	"CLUSTERDOWN": {set, "it is a node of a Redis Cluster, not an independent master"},
	"CROSSSLOT":   {set, "it is a node of a Redis Cluster, not an independent master"},
	"READONLY":    {away, "it is a replica"},
	"LOADING":     {away, "it is still loading its data"},
	"OOM":         {away, "it is out of memory"},
	"MISCONF":     {away, "it can't write to its disk"},
	"NOREPLICAS":  {away, "it lacks the replicas that it wants"},
	"BUSY":        {away, "it is busy with a script"},
	"WRONGTYPE":   {foreign, "its key of the lock is not of lockrun's making: it is no string"},
}

// loginTexts tell a refused login or a missing right from other errors that
// begin with ERR.
var loginTexts = []string{"AUTH", "invalid password", "DB index", "SELECT", "can't run this command", "can't access"}

// maxReply bounds what is shown of a server's own words, in bytes.
const maxReply = 160

// explain says in half a line what is wrong with a node, and which kind of
// fault it is. It never shows the password.
func (n *node) explain(err error) (string, kind) {
	var (
		reply     redis.Error
		ours      *foreignError
		login     *loginError
		slow      *slowError
		dns       *net.DNSError
		errno     syscall.Errno
		certs     *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		op        *net.OpError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &ours):
		return ours.text, foreign
	case errors.As(err, &login):
		return login.Error(), login.kind
	case errors.As(err, &reply):
		return n.explainReply(reply.Error())
	case errors.As(err, &slow):
		return slow.Error(), away
	case errors.As(err, &certs), errors.As(err, &authority), errors.As(err, &op) && op.Op == "remote error": // an alert: its refusal of us
		return n.shown(err.Error()), set
	case errors.As(err, &record):
		return "it does not speak TLS", set
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host name", away
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time", away
	case errors.As(err, &errno):
		return errno.Error(), away
	case errors.Is(err, io.EOF):
		return "it closed the connection", away
	}
	return n.shown(err.Error()), away
}

func (n *node) explainReply(text string) (string, kind) {
	word, _, _ := strings.Cut(text, " ")
	known, ok := replies[word]
	switch {
	case ok && word == "NOPERM":
		return known.text + " (" + n.shown(text) + ")", known.kind
	case ok:
		return known.text + " (" + word + ")", known.kind
	}
	for _, t := range loginTexts {
		if strings.Contains(text, t) {
			return n.shown(text), set
		}
	}
	return n.shown(text), away
}

// shown makes words that came from elsewhere fit for a terminal and a log. Some
// servers and proxies repeat a login that they do not understand.
func (n *node) shown(text string) string {
	if n.password != "" && strings.Contains(text, n.password) {
		return "it repeats the password in its answer"
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxReply {
		text = strings.ToValidUTF8(text[:maxReply], "") + ".."
	}
	return text
}

// unanswered tells whether a request may have been carried out although it
// failed: it did unless the server said no or was never reached.
func unanswered(err error) bool {
	var (
		reply redis.Error
		ours  *foreignError
		op    *net.OpError
	)
	switch {
	case err == nil, errors.As(err, &reply), errors.As(err, &ours):
		return false
	case errors.As(err, &op) && op.Op == "dial":
		return false
	}
	return true
}

// fault says in one line what is wrong with the nodes that failed, and how many
// have which kind of fault.
func (q *Quorum) fault() (string, map[kind]int) {
	var causes []string
	count := map[kind]int{}
	for _, n := range q.nodes {
		if n.err != nil {
			cause, kind := n.explain(n.err)
			causes = append(causes, n.name+": "+cause)
			count[kind]++
		}
	}
	return fmt.Sprintf("%d of %d nodes can be used, %d are needed (%s)",
		len(q.nodes)-len(causes), len(q.nodes), q.need, strings.Join(causes, "; ")), count
}

// notice warns of a minority that is set up wrongly, and mentions the rest.
func (q *Quorum) notice(warn bool) {
	for _, n := range q.nodes {
		if n.err == nil {
			continue
		}
		cause, kind := n.explain(n.err)
		q.debug("Redis node " + n.name + ": " + cause)
		if warn && kind != away && !n.warned[kind] {
			n.warned[kind] = true
			q.warn(n.name, errors.New(cause))
		}
	}
}
