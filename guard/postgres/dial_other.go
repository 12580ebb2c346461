//go:build !linux

package postgres

import (
	"net"
	"time"
)

// dialer notices within about userTimeout that an idle connection is dead. The
// deadline of each call bounds the rest.
func dialer(userTimeout time.Duration) *net.Dialer { return newDialer(userTimeout) }
