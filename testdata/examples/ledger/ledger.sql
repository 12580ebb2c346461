-- A small ledger. The primary key lets each account have one posting a date,
-- whoever writes it and how often.
CREATE TABLE account (
  id      int     PRIMARY KEY,
  balance numeric NOT NULL
);

CREATE TABLE posting (
  run_date   date    NOT NULL,
  account_id int     NOT NULL REFERENCES account,
  amount     numeric NOT NULL,
  PRIMARY KEY (run_date, account_id)
);

INSERT INTO account VALUES (1, 10000), (2, 250000), (3, 40000);
