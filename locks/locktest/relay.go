package locktest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Way is a direction through a [Relay].
type Way int

// The two directions.
const (
	Requests Way = iota // from the client to the server
	Answers             // from the server to the client
)

// Loss says what becomes of a marked request.
type Loss int

// The losses. After both of them the connection is gone.
const (
	LoseAnswer  Loss = iota // the server gets the request, the client no answer
	LoseRequest             // the server never sees it
)

// Relay is a wire to a server on which a test can have accidents. What it holds
// back is delivered when it is healed, as a network does that retransmits:
// also to a server whose client has given up by then.
type Relay struct {
	listener net.Listener
	gates    [2]gate

	mu     sync.Mutex
	target string
	refuse bool
	wires  map[*wire]bool
	mark   []byte
	loss   Loss
	times  int
}

// gate lets bytes through while its channel is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
	shut bool
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if shut == g.shut {
		return
	}
	if g.shut = shut; shut {
		g.open = make(chan struct{})
	} else {
		close(g.open)
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

// StartRelay starts a relay to host:port on a free loopback port.
func StartRelay(tb testing.TB, target string) *Relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{listener: l, target: target, wires: map[*wire]bool{}}
	for i := range r.gates {
		r.gates[i].open = make(chan struct{})
		close(r.gates[i].open)
	}
	go r.accept()
	tb.Cleanup(func() {
		_ = l.Close()
		r.Cut()
		r.Heal()
	})
	return r
}

// Addr is host:port for the clients.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Retarget sends new connections to another server.
func (r *Relay) Retarget(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// Cut resets all connections, and every new one until Heal.
func (r *Relay) Cut() {
	r.mu.Lock()
	r.refuse = true
	r.mu.Unlock()
	r.Reset()
}

// Reset resets the connections that there are.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.wires {
		w.reset()
	}
}

// Hold keeps back all bytes of one direction until Heal. Connections stay open
// and new ones come about.
func (r *Relay) Hold(way Way) { r.gates[way].set(true) }

// Lose loses the next so many requests that contain mark, or their answers.
func (r *Relay) Lose(mark string, loss Loss, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark, r.loss, r.times = []byte(mark), loss, times
}

// Heal ends everything that was done to the wire.
func (r *Relay) Heal() {
	r.mu.Lock()
	r.refuse, r.times = false, 0
	r.mu.Unlock()
	for i := range r.gates {
		r.gates[i].set(false)
	}
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.connect(client)
	}
}

func (r *Relay) connect(client net.Conn) {
	r.mu.Lock()
	target, refuse := r.target, r.refuse
	r.mu.Unlock()
	w := &wire{relay: r, client: client}
	if refuse {
		w.reset()
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		w.reset()
		return
	}
	w.server = server
	r.mu.Lock()
	if r.refuse {
		w.reset()
	}
	r.wires[w] = true
	r.mu.Unlock()
	go w.carry(Requests, client, server)
	w.carry(Answers, server, client)
	r.mu.Lock()
	delete(r.wires, w)
	r.mu.Unlock()
}

// wire is one connection through the relay.
type wire struct {
	relay          *Relay
	client, server net.Conn
	doomed         atomic.Bool // the next answer is lost, and the connection with it
}

// reset ends both halves as a broken network does, without a goodbye.
func (w *wire) reset() {
	for _, c := range []net.Conn{w.client, w.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

// carry copies one direction until it ends, and passes the end on.
func (w *wire) carry(way Way, from, to net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		w.relay.gates[way].wait()
		if n > 0 && w.lost(way, buf[:n]) {
			w.reset()
			return
		}
		if n > 0 {
			if _, failed := to.Write(buf[:n]); failed != nil && err == nil {
				err = failed
			}
		}
		if err != nil {
			if way == Requests {
				_ = to.(*net.TCPConn).CloseWrite()
			} else {
				_ = w.client.Close()
				_ = w.server.Close()
			}
			return
		}
	}
}

// lost tells whether the accident happens here and now.
func (w *wire) lost(way Way, bytesOnWire []byte) bool {
	if way == Answers {
		return w.doomed.Load()
	}
	r := w.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == 0 || !bytes.Contains(bytesOnWire, r.mark) {
		return false
	}
	r.times--
	w.doomed.Store(true)
	return r.loss == LoseRequest
}
