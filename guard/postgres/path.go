package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Everything that lockrun asks is asked under a search path of its own, for the
// transaction alone. Under the session's, a function or an operator that somebody
// else made in the database, and that fits a call better than the one of
// pg_catalog, would run with the rights of lockrun's login.
//
// The names of a statement are looked up when the server parses it, and it parses
// each one after it has executed the one before. So the path is set by a
// statement that comes first, in the same round trip, and that names the schema
// of all that it uses itself.
const (
	setPath = `SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`

	// durable also makes this transaction's commit wait until it survives a crash,
	// and synchronous standbys have it, whatever the server's default is; it never
	// asks for less than that default. The warning about a cancelled wait for a
	// standby must reach the client.
	durable = setPath + `,
  pg_catalog.set_config('synchronous_commit', CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),
  pg_catalog.set_config('client_min_messages', 'warning', true)`

	// durableWithin also bounds the wait for a row, by its parameter.
	durableWithin = durable + `, pg_catalog.set_config('lock_timeout', $1, true)`
)

// The transactions of several round trips. One that reads sees one snapshot: else
// a run could end between two questions and look unknown.
var (
	toRead   = pgx.TxOptions{BeginQuery: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + setPath}
	toChange = pgx.TxOptions{BeginQuery: "BEGIN ISOLATION LEVEL READ COMMITTED; " + setPath}
)

// askOnce asks one question in a transaction of its own, in one round trip.
func askOnce(ctx context.Context, conn *pgx.Conn, read func(pgx.Rows) error, sql string, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(setPath)
	b.Queue(sql, args...).Query(read)
	return conn.SendBatch(ctx, b).Close()
}
