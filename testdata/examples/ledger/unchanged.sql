-- The end-of-day interest as it was before anybody thought of lockrun. It wants
-- the date: psql -v date=2026-11-27 -f unchanged.sql
\set ON_ERROR_STOP on
\set QUIET on

BEGIN;
WITH posted AS (
  INSERT INTO posting (run_date, account_id, amount)
  SELECT :'date', id, round(balance * 0.0001, 2) FROM account
  ON CONFLICT DO NOTHING
  RETURNING account_id, amount
)
UPDATE account SET balance = balance + amount FROM posted WHERE id = account_id;
COMMIT;
