package postgres

import (
	"net"
	"time"
)

func newDialer(userTimeout time.Duration) *net.Dialer {
	probe := max(userTimeout/3, time.Second)
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probe, Interval: probe, Count: 2}}
}
