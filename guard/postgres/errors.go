package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"lockrun/locks"
)

// kind is what an error tells about the transaction that was asked for.
type kind int

const (
	unknown    kind = iota // it may have been committed, or may still be
	notSent                // nothing reached the server
	rolledBack             // the server says that nothing was done
	lockWait               // rolled back: another transaction keeps the row locked
	lostRace               // rolled back: by acquire.sql itself
	readOnly               // rolled back: the server takes no writes
	permanent              // refused, and will be refused again
)

// errUnconfirmed is a commit that a synchronous standby did not confirm.
var errUnconfirmed = errors.New("the wait for a synchronous standby was cancelled, so the commit may not survive a failover")

// classify is the one place that knows what each error means.
func classify(err error) kind {
	var refused *pgconn.ConnectError
	var answer *pgconn.PgError
	switch {
	case errors.Is(err, errUnconfirmed):
		return unknown
	case errors.As(err, &refused):
		return classifyConnect(refused)
	case errors.As(err, &answer):
		return classifyAnswer(answer)
	case pgconn.SafeToRetry(err):
		return notSent
	}
	return unknown
}

// classifyConnect judges by the last host and the last way of connecting that
// was tried: with sslmode=prefer the one before it is only a refusal of TLS.
func classifyConnect(err *pgconn.ConnectError) kind {
	tried := leaves(err)
	last := tried[len(tried)-1]
	var answer *pgconn.PgError
	switch {
	case errors.Is(err, pgconn.ErrReadOnlyConnection), errors.Is(err, pgconn.ErrStandbyConnection):
		return readOnly
	case errors.As(last, &answer) && classifyAnswer(answer) == permanent, untrusted(last):
		return permanent
	}
	return notSent
}

// untrusted tells whether one of the two sides does not accept the other's
// certificate, or its TLS at all.
func untrusted(err error) bool {
	var (
		checked   *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		host      x509.HostnameError
		op        *net.OpError
	)
	return errors.As(err, &checked) || errors.As(err, &authority) || errors.As(err, &invalid) || errors.As(err, &host) ||
		errors.As(err, &op) && op.Op == "remote error" || // an alert: the server's refusal of us
		strings.Contains(err.Error(), "server refused TLS connection")
}

// classifyAnswer reads SQLSTATEs. An ERROR undoes the transaction; after FATAL
// nobody knows how far it came.
func classifyAnswer(answer *pgconn.PgError) kind {
	class := answer.Code[:min(2, len(answer.Code))]
	switch answer.Code {
	case "55P03":
		return lockWait
	case "22012", "21000": // the latter with two rows in lockrun.meta
		return lostRace
	case "25006":
		return readOnly
	case "23505": // two copies of one request, the slower one
		return rolledBack
	case "3D000", "3F000":
		return permanent
	case "08P01": // what older poolers say whatever the reason, in English
		if poolerRefuses(answer.Message) {
			return permanent
		}
		return unknown
	}
	switch class {
	case "28", "42", "22", "23", "0A":
		return permanent
	}
	if answer.Severity == "FATAL" || answer.SeverityUnlocalized == "FATAL" || answer.SeverityUnlocalized == "PANIC" {
		return unknown
	}
	return rolledBack
}

// poolerRefuses tells PgBouncer's final answers from "try again later".
func poolerRefuses(message string) bool {
	return slices.ContainsFunc([]string{
		"unsupported startup parameter", "no such database", "no such user", "does not exist", "not allowed",
		"authentication failed", "auth failed", "SSL required",
	}, func(s string) bool { return strings.Contains(message, s) })
}

// leaves takes apart what pgx joined: one error for each host, or each address
// of a host, or each way of connecting to it.
func leaves(err error) []error {
	//nolint:errorlint // the tree is taken apart level by level; errors.As would jump over one
	if refused, ok := err.(*pgconn.ConnectError); ok {
		return leaves(refused.Unwrap())
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// explain words an error in one line without secrets. within is the time that
// was given to the call, for one that had no answer; 0 leaves it out.
func (c *Config) explain(err error, within time.Duration) string {
	var texts []string
	for _, e := range leaves(err) {
		if text := c.explainOne(e, within); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

func (c *Config) explainOne(err error, within time.Duration) string {
	var answer *pgconn.PgError
	var dial *net.OpError
	var timeout net.Error
	var lookup *net.DNSError
	switch {
	case errors.As(err, &answer):
		return oneLine(c.serverText(answer.Message) + " (SQLSTATE " + c.serverText(answer.Code) + ")")
	case errors.Is(err, pgconn.ErrReadOnlyConnection), errors.Is(err, pgconn.ErrStandbyConnection):
		return "is read-only (a standby?)"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), pgconn.Timeout(err),
		errors.As(err, &timeout) && timeout.Timeout():
		if within <= 0 {
			return "no answer in time"
		}
		unit := 10 * time.Millisecond
		if within > time.Second {
			unit = 100 * time.Millisecond
		}
		return "no answer within " + max(within.Round(unit), time.Millisecond).String()
	case errors.As(err, &lookup): // pgx joins one for each way of asking, all the same
		return oneLine(lookup.Error())
	case errors.As(err, &dial):
		return oneLine(dial.Error())
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the connection was closed"
	}
	return c.serverText(err.Error())
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// reason is an error in words that are fit to be shown.
type reason struct {
	text string
	err  error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.err }

// Fault turns an error of the driver into a *[locks.SetupError] or a
// *[locks.UnavailableError]; those two, and nil, it returns as they are.
func (c *Config) Fault(err error) error { return c.fault(err, 0) }

func (c *Config) fault(err error, within time.Duration) error {
	var setup *locks.SetupError
	var away *locks.UnavailableError
	if err == nil || errors.As(err, &setup) || errors.As(err, &away) {
		return err
	}
	why := &reason{c.explain(err, within), err}
	switch classify(err) {
	case permanent:
		return &locks.SetupError{What: c.what(), Err: why, Next: advice(err)}
	case readOnly:
		why.text = "is read-only (a standby?)"
		return &locks.UnavailableError{What: c.what(), Err: why, Next: "name the primary, or all hosts of the cluster, in --postgres"}
	case lockWait:
		why.text = "another transaction keeps the row locked"
	}
	return &locks.UnavailableError{What: c.what(), Err: why}
}

// advice is the next step after a permanent refusal.
func advice(err error) string {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return "check sslmode, sslrootcert, sslcert and sslkey in --postgres, and the server's certificate"
	}
	switch answer.Code {
	case "3F000", "42P01", "42703", "42883":
		return "run \"lockrun init\" with a login that may create the schema"
	case "42501":
		return "grant lockrun_runner to this login; \"lockrun init --print\" shows how"
	case "28P01", "28000":
		return "check user, password and pg_hba.conf"
	case "3D000":
		return "check the database in --postgres"
	case "42704", "08P01":
		return "check the parameters in --postgres and PGOPTIONS; a pooler takes few"
	case "22021", "22P05":
		return "use a database with encoding UTF8"
	}
	return ""
}

// schemaFault says what is wrong with the version in lockrun.meta, nil if
// nothing is.
func (c *Config) schemaFault(rows int64, version *int32, want int) error {
	fault := &locks.SetupError{What: c.what(), Next: "run \"lockrun init\""}
	switch {
	case rows == 0 || version == nil:
		fault.Err = errors.New("the schema has no version: lockrun.meta is empty")
	case rows > 1:
		fault.Err = fmt.Errorf("the schema has no single version: lockrun.meta has %d rows", rows)
		fault.Next = "find out who added one; leave the one that init wrote"
	case int(*version) > want:
		fault.Err = fmt.Errorf("the schema has version %d, this lockrun works with %d", *version, want)
		fault.Next = fmt.Sprintf("use a newer lockrun: one whose \"lockrun version\" says schema %d", *version)
	case int(*version) < want:
		fault.Err = fmt.Errorf("the schema has version %d, this lockrun works with %d", *version, want)
	default:
		return nil
	}
	return fault
}
