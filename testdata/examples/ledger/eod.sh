#!/bin/sh
# The end-of-day interest, as a shell script. A long job commits often, here after
# each account. Each transaction passes the fence for itself; it falls with the
# session, so that fence and write belong into one call of psql.
set -eu

for account in $(psql -XqAt -c 'SELECT id FROM account ORDER BY id'); do
	psql -Xq -v ON_ERROR_STOP=1 -v date="$LOCKRUN_DATE" -v run_id="$LOCKRUN_RUN_ID" -v account="$account" <<-'SQL'
		BEGIN;
		SELECT lockrun.fence(:'run_id') AS token \gset
		WITH posted AS (
		  INSERT INTO posting (run_date, account_id, amount)
		  SELECT :'date', id, round(balance * 0.0001, 2) FROM account WHERE id = :account
		  ON CONFLICT DO NOTHING
		  RETURNING account_id, amount
		)
		UPDATE account SET balance = balance + amount FROM posted WHERE id = account_id;
		COMMIT;
	SQL
done
