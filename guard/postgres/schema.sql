-- The schema of lockrun, version 1. Running it again changes nothing.

CREATE TABLE IF NOT EXISTS lockrun.meta (
  version int NOT NULL
);
INSERT INTO lockrun.meta (version) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM lockrun.meta);

-- Who may run a name now. Held = expires_at is in the future. Rows are never deleted: the token lives here.
CREATE TABLE IF NOT EXISTS lockrun.lease (
  name        text        NOT NULL PRIMARY KEY,
  run_id      uuid        NOT NULL,
  token       bigint      NOT NULL CHECK (token > 0),
  holder      text        NOT NULL,
  pid         int         NOT NULL,
  acquired_at timestamptz NOT NULL,
  renewed_at  timestamptz NOT NULL,
  expires_at  timestamptz NOT NULL,
  -- This makes run_id a key column. The fence rests on it: a take-over changes a key, so that it has to wait for
  -- whoever holds the row FOR KEY SHARE; a renewal changes none and goes on.
  CONSTRAINT lease_run_id_name_key UNIQUE (run_id, name)
) WITH (fillfactor = 50);

-- The guard row of each name and date.
CREATE TABLE IF NOT EXISTS lockrun.run (
  name       text        NOT NULL,
  run_date   text        NOT NULL,
  state      text        NOT NULL CHECK (state IN ('running', 'succeeded', 'failed')),
  run_id     uuid        NOT NULL,
  attempt    int         NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at   timestamptz,
  exit_code  int,
  signal     text,
  reason     text,
  PRIMARY KEY (name, run_date)
);

-- Every attempt there ever was.
CREATE TABLE IF NOT EXISTS lockrun.attempt (
  run_id     uuid        NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  run_date   text,
  attempt    int         NOT NULL,
  token      bigint      NOT NULL,
  holder     text        NOT NULL,
  host       text        NOT NULL,
  pid        int         NOT NULL,
  os_user    text        NOT NULL,
  command    text[]      NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at   timestamptz,
  outcome    text        NOT NULL CHECK (outcome IN
               ('running', 'succeeded', 'failed', 'lost', 'timeout', 'not_started', 'unknown')),
  exit_code  int,
  signal     text,
  reason     text,
  version    text        NOT NULL
);
CREATE INDEX IF NOT EXISTS attempt_name_run_date_attempt_idx ON lockrun.attempt (name, run_date, attempt);

-- What people decided. Append only.
CREATE TABLE IF NOT EXISTS lockrun.audit (
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor    text        NOT NULL,
  action   text        NOT NULL,
  name     text        NOT NULL,
  run_date text,
  reason   text        NOT NULL,
  before   jsonb,
  after    jsonb
);

-- The first token of this timeline, less one. A promoted standby is on a new timeline, so its tokens are larger than
-- any that the old primary gave out, also those it never told the standby. Read from the name of the WAL file that
-- is being written: the control file goes on naming the old timeline until the next checkpoint.
CREATE OR REPLACE FUNCTION lockrun.token_base() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint << 32
$$;

-- A job calls this in its own transaction. It returns the token while the run holds its lease, and until the
-- transaction ends nobody else can take that lease.
CREATE OR REPLACE FUNCTION lockrun.fence(p_run_id uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held   record;
  latest timestamptz;
BEGIN
  SELECT l.name, l.token, l.expires_at INTO held FROM lockrun.lease l WHERE l.run_id = p_run_id FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'lockrun: run % no longer holds its lease', p_run_id USING ERRCODE = 'LR001';
  END IF;
  -- Above READ COMMITTED this row may be older than the last renewals. What is certain there is only that a lease
  -- which was over when the transaction began was never renewed since.
  latest := CASE WHEN current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
                 THEN transaction_timestamp() ELSE clock_timestamp() END;
  IF held.expires_at <= latest THEN
    RAISE EXCEPTION 'lockrun: the lease of run % on "%" expired at %', p_run_id, held.name, held.expires_at
      USING ERRCODE = 'LR002';
  END IF;
  RETURN held.token;
END $$;

-- The same for a job whose code can't be changed: a trigger on its table, with the name of the job as argument, and
-- the setting lockrun.run_id in its session.
CREATE OR REPLACE FUNCTION lockrun.fence_trigger() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  id text := coalesce(current_setting('lockrun.run_id', true), '');
BEGIN
  IF id !~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' THEN
    RAISE EXCEPTION 'lockrun: % needs a run of "%", this session has none', TG_RELID::regclass, TG_ARGV[0]
      USING ERRCODE = 'LR003', HINT = 'Start the job with lockrun --export-pgoptions.';
  END IF;
  PERFORM lockrun.fence(id::uuid);
  IF NOT EXISTS (SELECT 1 FROM lockrun.lease l WHERE l.run_id = id::uuid AND l.name = TG_ARGV[0]) THEN
    RAISE EXCEPTION 'lockrun: % needs a run of "%", this session is another one', TG_RELID::regclass, TG_ARGV[0]
      USING ERRCODE = 'LR003';
  END IF;
  -- NULL from a trigger before each row would drop the row without a word.
  IF TG_LEVEL = 'STATEMENT' THEN
    RETURN NULL;
  ELSIF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$;

REVOKE ALL ON FUNCTION lockrun.token_base(), lockrun.fence(uuid), lockrun.fence_trigger() FROM PUBLIC;
