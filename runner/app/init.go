package app

import (
	"context"
	"fmt"
	"time"

	"lockrun/guard"
	"lockrun/guard/postgres"
	"lockrun/guard/sqlite"
)

// initBound is how long init may take: it waits for another init and for
// whoever keeps the tables locked.
const initBound = 30 * time.Second

func (in *invocation) initCommand() *command {
	return &command{name: "init", help: initHelp, options: pick("postgres", "local", "state-dir", "config", "print"), run: in.init}
}

// init makes the tables.
func (in *invocation) init(s *settings) error {
	show, err := s.bool("print")
	if err != nil {
		return err
	}
	if show {
		return in.print(postgres.SchemaSQL())
	}
	st, err := readStores(s, in.env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), initBound)
	defer cancel()
	if st.local {
		change, err := sqlite.Init(ctx, st.stateDir)
		return in.initialised(change, st.stateDir, err)
	}
	change, err := postgres.Init(ctx, st.postgres)
	return in.initialised(change, st.postgres.Address(), err)
}

func (in *invocation) initialised(change guard.Change, where string, err error) error {
	if err != nil {
		return err
	}
	said := map[guard.Change]string{
		guard.Created: "created schema version %d in %s\n", guard.Upgraded: "upgraded the schema to version %d in %s\n",
		guard.Unchanged: "schema version %d is there already in %s, nothing changed\n",
	}
	return in.print(fmt.Sprintf(said[change], guard.SchemaVersion, where))
}
