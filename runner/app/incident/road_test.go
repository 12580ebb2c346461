package incident

import (
	"io"
	"net"
	"sync"
	"testing"
)

// road is the way from a pod to a server: an address that stays the same while
// the server behind it changes, as that of a Kubernetes service does.
type road struct {
	listener net.Listener
	addr     string
	mu       sync.Mutex
	to       string
	// toll sees each request before the server does, one after the other, and
	// tells whether it may pass. nil: all pass.
	toll  func(n int, request []byte) bool
	count int

	travels sync.WaitGroup
}

func newRoad(tb testing.TB, to string) *road {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	r := &road{listener: l, addr: l.Addr().String(), to: to}
	r.travels.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			r.travels.Go(func() { r.travel(client) })
		}
	})
	return r
}

func (r *road) url() string { return "redis://" + r.addr }

// leadTo changes the server for connections to come.
func (r *road) leadTo(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = addr
}

// asks sets the toll, and counts from one again.
func (r *road) asks(toll func(n int, request []byte) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.toll, r.count = toll, 0
}

// close ends the road when nobody is on it any more: the server has then seen
// all that those who have died had sent.
func (r *road) close() {
	_ = r.listener.Close()
	r.travels.Wait()
}

func (r *road) passes(request []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	return r.toll == nil || r.toll(r.count, request)
}

func (r *road) travel(client net.Conn) {
	defer func() { _ = client.Close() }()
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if n > 0 && r.passes(buf[:n]) {
			if _, failed := server.Write(buf[:n]); failed != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	// What is on its way still gets there.
	_ = server.(*net.TCPConn).CloseWrite()
	<-back
	_ = server.Close()
}
