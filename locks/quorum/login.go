package quorum

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// loginError is a refused login. It holds none of the server's own words: some
// servers and proxies repeat a login that they don't understand, cut or changed,
// so that the password can't be found in it.
type loginError struct {
	text string
	next string // what to do, if it is more than to correct the login
	kind kind
}

func (e *loginError) Error() string {
	if e.next == "" {
		return e.text
	}
	return e.text + ", " + e.next
}

// RedisError says, to the library too, that the server itself has answered.
func (e *loginError) RedisError() {}

// refusals are what servers say to a login under the word ERR, and what to do.
var refusals = []struct {
	said, text, next string
	kind             kind
}{
	{"without any password configured", "it has no password for this user (ERR)", "leave it out of the URL or set one there", set},
	{"no password is set", "it has no password (ERR)", "leave it out of the URL or set one there", set},
	{"wrong number of arguments", "it knows no user names (ERR)", "leave the user out of the URL or use Redis 6 or newer", set},
	{"invalid password", "it refuses the password (ERR)", "", set},
	{"unknown command", "it knows no login (ERR)", "see whether AUTH was renamed there, and what is between it and this host", set},
	{"max number of clients", "it has as many clients as it may have (ERR)", "see maxclients there", away},
}

const seeLogin = "see user and password, and the server's own log"

// refusal explains what a server says to a login.
func refusal(said string) *loginError {
	word, _, _ := strings.Cut(said, " ")
	switch known, ok := replies[word]; {
	case word == "NOPERM":
		return &loginError{"it refuses the login (NOPERM)", "see the user's rights there", set}
	case ok:
		return &loginError{known.text + " (" + word + ")", "", known.kind}
	case word != "ERR":
		return &loginError{"it refuses the login in words of its own", seeLogin, set}
	}
	for _, r := range refusals {
		if strings.Contains(said, r.said) {
			return &loginError{r.text, r.next, r.kind}
		}
	}
	return &loginError{"it refuses the connection (ERR)", seeLogin, away} // which need not be the login's fault
}

// loginHook keeps HELLO back where there is no login to send with it: a new
// connection speaks version 2 of the protocol anyway, and the round trip is
// saved. It replaces what a server says to the library's own HELLO and AUTH.
type loginHook struct{}

func (loginHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (loginHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hello" && len(cmd.Args()) == 2 { // the word and the version
			return nil
		}
		err := next(ctx, cmd)
		var reply redis.Error
		if err != nil && errors.As(err, &reply) && (cmd.Name() == "hello" || cmd.Name() == "auth") {
			return refusal(reply.Error())
		}
		return err
	}
}

func (loginHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
