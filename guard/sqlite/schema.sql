-- Times are RFC 3339 in UTC with nine digits of fraction, so that they compare
-- as text. command, before and after are JSON.
CREATE TABLE lease (
  name        TEXT    NOT NULL PRIMARY KEY,
  run_id      TEXT    NOT NULL,
  token       INTEGER NOT NULL CHECK (token > 0),
  holder      TEXT    NOT NULL,
  pid         INTEGER NOT NULL,
  acquired_at TEXT    NOT NULL,
  renewed_at  TEXT    NOT NULL,
  expires_at  TEXT    NOT NULL,
  UNIQUE (name, run_id)
) STRICT;

CREATE TABLE run (
  name       TEXT    NOT NULL,
  run_date   TEXT    NOT NULL,
  state      TEXT    NOT NULL CHECK (state IN ('running', 'succeeded', 'failed')),
  run_id     TEXT    NOT NULL,
  attempt    INTEGER NOT NULL,
  started_at TEXT    NOT NULL,
  ended_at   TEXT,
  exit_code  INTEGER,
  signal     TEXT,
  reason     TEXT,
  PRIMARY KEY (name, run_date)
) STRICT;

CREATE TABLE attempt (
  run_id     TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  run_date   TEXT,
  attempt    INTEGER NOT NULL,
  token      INTEGER NOT NULL,
  holder     TEXT    NOT NULL,
  host       TEXT    NOT NULL,
  pid        INTEGER NOT NULL,
  os_user    TEXT    NOT NULL,
  command    TEXT    NOT NULL,
  started_at TEXT    NOT NULL,
  ended_at   TEXT,
  outcome    TEXT    NOT NULL CHECK (outcome IN ('running', 'succeeded', 'failed', 'lost', 'timeout', 'not_started', 'unknown')),
  exit_code  INTEGER,
  signal     TEXT,
  reason     TEXT,
  version    TEXT    NOT NULL
) STRICT;

CREATE INDEX attempt_name_date ON attempt (name, run_date, attempt);

CREATE TABLE audit (
  at       TEXT NOT NULL,
  actor    TEXT NOT NULL,
  action   TEXT NOT NULL,
  name     TEXT NOT NULL,
  run_date TEXT,
  reason   TEXT NOT NULL,
  before   TEXT,
  after    TEXT
) STRICT;

CREATE TABLE meta (
  version INTEGER NOT NULL
) STRICT;
