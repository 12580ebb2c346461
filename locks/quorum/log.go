package quorum

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// The Redis library logs to stderr by default, also after the call that it
// concerns has returned. Stderr belongs to the child and to one line of ours.
func init() { redis.SetLogger(libraryLog{}) }

// libraryDebug is the Debug of the latest Quorum: the library has one logger
// for the whole process.
var libraryDebug atomic.Pointer[func(string)]

type libraryLog struct{}

// Printf passes a line on, or drops it when nobody wants to know.
func (libraryLog) Printf(_ context.Context, format string, v ...any) {
	if debug := libraryDebug.Load(); debug != nil {
		(*debug)("redis library: " + fmt.Sprintf(format, v...))
	}
}
