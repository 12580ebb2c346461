package blackbox

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// gate is what a proxy lets through.
type gate int

const (
	open   gate = iota
	frozen      // nothing, either way; connections stay open and are accepted
	muted       // requests only: answers are thrown away
)

// proxy is a wire to a server that can hang without a word.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	changed  *sync.Cond
	gate     gate
	trigger  []byte // a request with this text mutes the proxy; nil = none
	closed   bool
	conns    []net.Conn
	done     sync.WaitGroup
}

// startProxy returns a proxy and the DSN that leads through it.
func startProxy(tb testing.TB, dsn string) (*proxy, string) {
	tb.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{listener: l, target: u.Host}
	p.changed = sync.NewCond(&p.mu)
	p.done.Go(p.accept)
	tb.Cleanup(p.close)
	u.Host = l.Addr().String()
	return p, u.String()
}

// set opens or shuts the gate. With a trigger, it is muted only when a request
// with that text goes through.
func (p *proxy) set(g gate, trigger string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate, p.trigger = g, nil
	if trigger != "" {
		p.gate, p.trigger = open, []byte(trigger)
	}
	p.changed.Broadcast()
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}

// pass waits while the proxy is frozen. It tells whether what was read goes on.
func (p *proxy) pass(text []byte, answer bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !answer && p.trigger != nil && bytes.Contains(text, p.trigger) {
		p.gate, p.trigger = muted, nil
	}
	for p.gate == frozen && !p.closed {
		p.changed.Wait()
	}
	return !p.closed && !(answer && p.gate == muted)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	if !p.own(client) {
		return
	}
	p.pass(nil, false)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.own(server) {
		return
	}
	p.done.Go(func() { p.copy(client, server, true) })
	p.copy(server, client, false)
}

// own sees to it that close closes the connection too.
func (p *proxy) own(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
	return !p.closed
}

// copy moves bytes until either end is closed, and tells the other end.
func (p *proxy) copy(to io.WriteCloser, from io.Reader, answer bool) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if p.pass(buf[:n], answer) && n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
