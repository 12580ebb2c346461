-- The end-of-day interest, as a script for psql.
\set ON_ERROR_STOP on
\set QUIET on
\set date `echo "$LOCKRUN_DATE"`
\set run_id `echo "$LOCKRUN_RUN_ID"`

BEGIN;
SELECT lockrun.fence(:'run_id') AS token \gset

WITH posted AS (
  INSERT INTO posting (run_date, account_id, amount)
  SELECT :'date', id, round(balance * 0.0001, 2) FROM account
  ON CONFLICT DO NOTHING
  RETURNING account_id, amount
)
UPDATE account SET balance = balance + amount FROM posted WHERE id = account_id;
COMMIT;
