package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/locks/locktest"
)

func TestServerHangsAndRestarts(t *testing.T) {
	pg := locktest.StartPostgres(t)
	d := initDatabase(t, pg.DSN("postgres"))
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	granted(t, s, r)

	pg.Pause()
	limit := time.Now().Add(s.timing.Call + 500*time.Millisecond)
	wantUnavailable(t, s.Renew(bounded(t, 20*time.Second), r), false, "no answer within 1")
	if time.Now().After(limit) {
		t.Errorf("a renewal outlasted its bound of %v", s.timing.Call)
	}
	ctx := bounded(t, 1500*time.Millisecond)
	limit = time.Now().Add(2500 * time.Millisecond)
	_, err := s.Acquire(ctx, request("other", ""))
	wantUnavailable(t, err, false, "Postgres at "+s.cfg.Address(), "no answer within ") // it could not even connect
	if time.Now().After(limit) {
		t.Error("an acquire outlasted its ctx")
	}
	pg.Resume()
	eventually(t, "a renewal after the pause", func() bool { return s.Renew(bounded(t, 20*time.Second), r) == nil })

	pg.Pause()
	_, err = s.Acquire(bounded(t, 500*time.Millisecond), request("other", "")) // on the open connection
	wantUnavailable(t, err, true, "no answer within ")
	pg.Resume()

	pg.Stop()
	wantUnavailable(t, s.Renew(bounded(t, 20*time.Second), r), false, "connection refused")
	_, err = s.Acquire(bounded(t, 500*time.Millisecond), request("third", ""))
	wantUnavailable(t, err, false, "connection refused")
	pg.Start()
	if err := s.Renew(bounded(t, 20*time.Second), r); err != nil {
		t.Errorf("renew after a restart: %v", err)
	}
}

func TestAcquireWaitsForAServerThatStarts(t *testing.T) {
	pg := locktest.StartPostgres(t)
	dsn := initDatabase(t, pg.DSN("postgres")).dsn
	pg.Stop()
	s := store(t, dsn)
	ctx, answer := bounded(t, 20*time.Second), make(chan error, 1)
	go func() {
		a, err := s.Acquire(ctx, request("eod", "2026-01-15"))
		if err == nil && a.Verdict != guard.Granted {
			err = fmt.Errorf("answer %+v", a)
		}
		answer <- err
	}()
	pg.Start()
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

func TestAcquireStopsWithItsContext(t *testing.T) {
	d := newDatabase(t)
	for _, tx := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := store(t, d.dsn)
		if tx {
			granted(t, s, request("warm", ""))
		}
		_, err := s.Acquire(ctx, request("eod", ""))
		wantUnavailable(t, err, false)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v does not match the end of its ctx", err)
		}
	}
	if n := d.text("SELECT count(*) FROM lockrun.lease WHERE name = 'eod'"); n != "0" {
		t.Error("a cancelled acquire took the lease")
	}
}

func TestReadOnly(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	granted(t, s, r)
	name := d.text("SELECT current_database()")
	d.exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	if err := s.Renew(bounded(t, time.Second), r); err != nil {
		t.Fatalf("renew in a session that may write: %v", err)
	}
	s.Close()
	_, err := s.Acquire(bounded(t, 500*time.Millisecond), again(r, guard.Rerun{}))
	wantUnavailable(t, err, false, "is read-only (a standby?)")
	wantUnavailable(t, s.Renew(bounded(t, time.Second), r), false, "is read-only (a standby?)")
	_, err = store(t, withKeyword(d.dsn, "target_session_attrs", "read-write")).Acquire(bounded(t, 500*time.Millisecond), r)
	wantUnavailable(t, err, false, "is read-only (a standby?)")
	d.exec("SET default_transaction_read_only = off; ALTER DATABASE " + name + " RESET default_transaction_read_only")
	if err := s.Renew(bounded(t, time.Second), r); err != nil {
		t.Errorf("renew once the server takes writes: %v", err)
	}
}

func TestLoginRefused(t *testing.T) {
	pg := locktest.SharedPostgres(t)
	dsn := pg.Database(t)
	for _, c := range []struct{ name, dsn, next, says string }{
		{"no_such_role", asRole(dsn, "nosuchrole"), "pg_hba.conf", "nosuchrole"},
		{"no_such_database", pg.DSN("nosuchdb"), "check the database", "nosuchdb"},
		{"unknown_setting", withKeyword(dsn, "extra_float_digits", "many"), "", "extra_float_digits"},
		{"tls_preferred", "postgres://nosuchrole@127.0.0.1:" + fmt.Sprint(pg.Port()) + "/postgres", "pg_hba.conf", "nosuchrole"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := store(t, c.dsn).Acquire(bounded(t, 20*time.Second), request("eod", ""))
			wantSetup(t, err, c.next, c.says)
		})
	}
}

func TestPgBouncerRefuses(t *testing.T) {
	pg := locktest.StartPostgres(t)
	initDatabase(t, pg.DSN("postgres"))
	bouncer := locktest.StartPgBouncer(t, pg, "postgres", "transaction", 2)
	_, err := store(t, withKeyword(bouncer.DSN(), "statement_timeout", "5000")).Acquire(bounded(t, 20*time.Second), request("eod", ""))
	wantSetup(t, err, "pooler", "unsupported startup parameter")
	// By statement is enough: a transaction arrives and is answered as one piece.
	statement := locktest.StartPgBouncer(t, pg, "postgres", "statement", 2)
	granted(t, store(t, statement.DSN()), request("statement", "2026-01-15"))
	t.Run("server_down", func(t *testing.T) {
		s := store(t, bouncer.DSN())
		r := request("eod", "2026-01-15")
		granted(t, s, r)
		pg.Stop()
		wantUnavailable(t, s.Renew(bounded(t, time.Second), r), false)
		_, err := s.Acquire(bounded(t, time.Second), request("other", ""))
		var away *locks.UnavailableError
		if !errors.As(err, &away) {
			t.Errorf("got %v, want an UnavailableError: the server may come back", err)
		}
	})
}

// One host that swallows everything must not cost the time of the others.
func TestDeadHostAmongSeveral(t *testing.T) {
	pg := locktest.SharedPostgres(t)
	d := newDatabase(t)
	hole, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hole.Close() }()
	closed := locktest.FreePort(t)
	name := d.text("SELECT current_database()")
	dsn := fmt.Sprintf("postgres://postgres@%s,127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&connect_timeout=60", hole.Addr(), closed, pg.Port(), name)
	s := store(t, dsn)
	r := request("eod", "2026-01-15")
	granted(t, s, r)
	s.Close()
	if err := s.Renew(bounded(t, 20*time.Second), r); err != nil {
		t.Errorf("renew on a new connection: %v", err)
	}
	want := fmt.Sprintf("%s,127.0.0.1:%d,127.0.0.1:%d/%s", hole.Addr(), closed, pg.Port(), name)
	if got := s.cfg.Address(); got != want {
		t.Errorf("address %q, want %q", got, want)
	}
}
