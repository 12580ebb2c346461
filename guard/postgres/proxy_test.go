package postgres

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// fate is what a proxy does with a connection once a marked request came by.
type fate int

const (
	pass   fate = iota
	mute        // the request is forwarded, no reply comes back
	cut         // the request is forwarded, the reply closes the connection
	detain      // the request is kept until release, whatever the client does
)

// proxy is a wire to Postgres that can lose answers.
type proxy struct {
	listener net.Listener
	mark     []byte // what a marked request holds
	target   string
	mu       sync.Mutex
	fate     fate
	times    int // for how many more requests
	released chan struct{}
	done     sync.WaitGroup
}

// acquireMark is in the text of each acquire.
var acquireMark = []byte("lockrun acquire")

// throughProxy starts a proxy and returns the connection string through it.
func throughProxy(tb testing.TB, dsn string) (*proxy, string) {
	tb.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{listener: l, mark: acquireMark, target: u.Host, released: make(chan struct{})}
	p.done.Go(p.accept)
	tb.Cleanup(func() { _ = l.Close() })
	u.Host = l.Addr().String()
	return p, u.String()
}

// next sets the fate of the next so many acquires.
func (p *proxy) next(f fate, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate, p.times = f, times
}

func (p *proxy) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times
}

func (p *proxy) release() { close(p.released) }

func (p *proxy) decide(request []byte) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == 0 || !bytes.Contains(request, p.mark) {
		return pass
	}
	p.times--
	return p.fate
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		w := &wire{proxy: p, client: client, server: server}
		p.done.Go(w.requests)
		p.done.Go(w.replies)
	}
}

// wire is one connection through the proxy.
type wire struct {
	*proxy
	client, server net.Conn
	mu             sync.Mutex
	fate           fate
}

func (w *wire) requests() {
	defer func() { _ = w.server.(*net.TCPConn).CloseWrite() }()
	buf := make([]byte, 1<<16)
	for {
		n, err := w.client.Read(buf)
		if f := w.decide(buf[:n]); f != pass {
			w.mu.Lock()
			w.fate = f
			w.mu.Unlock()
			if f == detain {
				<-w.released
			}
		}
		if _, failed := w.server.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (w *wire) replies() {
	defer func() { _ = w.client.Close() }()
	buf := make([]byte, 1<<16)
	for {
		n, err := w.server.Read(buf)
		w.mu.Lock()
		f := w.fate
		w.mu.Unlock()
		switch {
		case f == cut && n > 0:
			return
		case f == mute || f == detain:
			n = 0
		}
		if n > 0 {
			if _, failed := w.client.Write(buf[:n]); failed != nil {
				// the server still gets what is on its way
				_, _ = io.Copy(io.Discard, w.server)
				return
			}
		}
		if err != nil {
			return
		}
	}
}
