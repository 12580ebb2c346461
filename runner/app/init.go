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
	options := append(pick("postgres", "local", "state-dir"), option{name: "print", kind: takesNothing})
	return &command{name: "init", help: initHelp, options: options, run: in.init}
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
		created, err := sqlite.Init(ctx, st.stateDir)
		return in.initialised(created, st.stateDir, err)
	}
	created, err := postgres.Init(ctx, st.postgres)
	return in.initialised(created, st.postgres.Address(), err)
}

func (in *invocation) initialised(created bool, where string, err error) error {
	if err != nil {
		return err
	}
	if created {
		return in.print(fmt.Sprintf("created schema version %d in %s\n", guard.SchemaVersion, where))
	}
	return in.print(fmt.Sprintf("schema version %d is there already in %s, nothing changed\n", guard.SchemaVersion, where))
}
