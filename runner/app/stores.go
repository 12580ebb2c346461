package app

import (
	"errors"
	"strings"

	"lockrun/guard/postgres"
	"lockrun/locks"
	"lockrun/locks/quorum"
)

// stores says where locks and records are kept.
type stores struct {
	local    bool
	stateDir string           // local
	postgres *postgres.Config // nil in local mode
	redis    []string         // URLs; none = Postgres alone
	tls      quorum.TLSFiles
}

// address names the database, without secrets.
func (st stores) address() string {
	if st.local {
		return "the local store"
	}
	return st.postgres.Address()
}

const threeWays = "say where runs are recorded: --postgres DSN with --redis URL (three times), --postgres DSN alone, or --local for this host only"

// readStores decides between servers and the local store. When both are asked
// for, the stronger source wins: a flag over the environment. That a variable
// is missing never makes a run local.
func readStores(s *settings, env map[string]string) (st stores, err error) {
	local, err := s.bool("local")
	if err != nil {
		return st, err
	}
	_, localFrom := s.values("local")
	if !local {
		localFrom = fromDefault
	}
	urls, redisFrom := s.values("redis")
	dsn, postgresFrom := s.text("postgres", "")
	for _, o := range []struct {
		name string
		from source
		text string
	}{{"redis", redisFrom, strings.Join(urls, "")}, {"postgres", postgresFrom, dsn}} {
		if o.from != fromDefault && strings.TrimSpace(o.text) == "" {
			// A variable that is made of others which are not set must not take
			// a door away.
			return st, usagef("%s is blank", s.where(o.name))
		}
	}
	servers := max(redisFrom, postgresFrom)
	switch {
	case local && localFrom == servers:
		return st, usagef("%s and %s exclude each other", s.where("local"), serverWhere(s, localFrom))
	case local && localFrom > servers:
		return readLocal(s, env)
	case postgresFrom == fromDefault && redisFrom == fromDefault:
		return st, usagef("%s", threeWays)
	case postgresFrom == fromDefault:
		return st, usagef("%s without --postgres is refused: a Redis failover can give one lock to two hosts, and only Postgres decides; add --postgres DSN", s.where("redis"))
	}
	if dsn, err = secret(s.where("postgres"), dsn); err != nil {
		return st, err
	}
	if st.postgres, err = parseDSN(s.where("postgres"), dsn); err != nil {
		return st, err
	}
	return st, st.readRedis(s, urls)
}

// serverWhere names the server option that comes from the given source.
func serverWhere(s *settings, source source) string {
	if _, from := s.text("postgres", ""); from == source {
		return s.where("postgres")
	}
	return s.where("redis")
}

func readLocal(s *settings, env map[string]string) (st stores, err error) {
	st.local = true
	if st.stateDir, err = stateDir(s, env); err != nil {
		return st, err
	}
	if st.stateDir == "" {
		return st, usagef("--local needs --state-dir DIR here: neither XDG_STATE_HOME nor HOME is set")
	}
	return st, nil
}

func (st *stores) readRedis(s *settings, values []string) error {
	for _, v := range values {
		text, err := secret(s.where("redis"), v)
		if err != nil {
			return err
		}
		if text == v {
			st.redis = append(st.redis, v)
			continue
		}
		st.redis = append(st.redis, fields(text)...)
	}
	st.tls.CA, _ = s.text("redis-ca", "")
	st.tls.Cert, _ = s.text("redis-cert", "")
	st.tls.Key, _ = s.text("redis-key", "")
	if len(st.redis) > 0 {
		return nil
	}
	for _, name := range []string{"redis-ca", "redis-cert", "redis-key"} {
		if _, from := s.text(name, ""); from == fromFlag {
			return usagef("--%s without --redis has no meaning", name)
		}
	}
	return nil
}

// parseDSN words the faults of a DSN; they hold no password.
func parseDSN(where, dsn string) (*postgres.Config, error) {
	c, err := postgres.ParseDSN(dsn)
	if err == nil {
		return c, nil
	}
	var setup *locks.SetupError
	if errors.As(err, &setup) {
		return nil, setup
	}
	return nil, usagef("%s: %w", where, err)
}
