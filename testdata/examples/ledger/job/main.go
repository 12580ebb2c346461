// Command job is the end-of-day interest, as a Go program. It finds the ledger in
// the variables that psql knows (PGHOST, PGDATABASE, ...).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func main() {
	// SIGTERM comes when lockrun has lost the lease: what is not yet committed
	// is rolled back.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, os.Getenv("LOCKRUN_DATE"), os.Getenv("LOCKRUN_RUN_ID"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "end of day:", err)
		os.Exit(1)
	}
}

const post = `
WITH posted AS (
  INSERT INTO posting (run_date, account_id, amount)
  SELECT $1::date, id, round(balance * 0.0001, 2) FROM account
  ON CONFLICT DO NOTHING
  RETURNING account_id, amount
)
UPDATE account SET balance = balance + amount FROM posted WHERE id = account_id`

func run(ctx context.Context, date, runID string) error {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT lockrun.fence($1)", runID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, post, date)
		return err
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "LR001" || refused.Code == "LR002") {
		return fmt.Errorf("another run may have this date by now, nothing was written: %w", err)
	}
	return err
}
