//go:build linux

package chaos

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

// nameServer knows every name: it is this host's. Lockrun asks it because the
// file /etc/resolv.conf is another one in its mount namespace, which takes root.
type nameServer struct {
	conn net.PacketConn
	mood atomic.Int32
}

// The moods of a name server.
const (
	answering int32 = iota
	silent
	denying // there is no such name
)

// startNameServer returns nil for a user who may not.
func startNameServer(tb testing.TB) *nameServer {
	tb.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	// Each address of 127.0.0.0/8 is this host's; every world has its own.
	var conn net.PacketConn
	var err error
	for tries := 0; conn == nil && tries < 100; tries++ {
		conn, err = net.ListenPacket("udp", fmt.Sprintf("127.53.%d.%d:53", rand.N(256), 1+rand.N(254)))
	}
	if err != nil {
		tb.Fatal(err)
	}
	s := &nameServer{conn: conn}
	go s.serve()
	tb.Cleanup(func() { _ = conn.Close() })
	return s
}

func (s *nameServer) serve() {
	buf := make([]byte, 1<<12)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := answer(buf[:n], s.mood.Load()); reply != nil {
			_, _ = s.conn.WriteTo(reply, from)
		}
	}
}

// answer is the reply to a question with one name; nil for none.
func answer(question []byte, mood int32) []byte {
	const header = 12
	end := header
	for end < len(question) && question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5 // the root, the type, the class
	if mood == silent || end > len(question) {
		return nil
	}
	kind := binary.BigEndian.Uint16(question[end-4:])
	reply := append([]byte(nil), question[:end]...)
	reply[2], reply[3] = 0x81, 0x80 // a response; recursion was wanted and was there
	if mood == denying {
		reply[3] |= 3
	}
	copy(reply[4:header], []byte{0, 1, 0, 0, 0, 0, 0, 0})
	if mood == answering && kind == 1 {
		reply[7] = 1
		reply = append(reply, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	return reply
}

// inItsOwnView makes a command see another /etc/resolv.conf. It stays the same
// process.
func (w *world) inItsOwnView(path string, argv []string) (string, []string, *syscall.SysProcAttr) {
	attr := &syscall.SysProcAttr{Setsid: true} // without a terminal, as under cron
	if !w.named {
		return path, argv, attr
	}
	attr.Unshareflags = syscall.CLONE_NEWNS
	script := `mount --bind "$0" /etc/resolv.conf && exec "$@"`
	return "/bin/sh", append([]string{"sh", "-c", script, filepath.Join(w.dir, "resolv.conf"), path}, argv[1:]...), attr
}

// writeResolvConf makes that file.
func (w *world) writeResolvConf() {
	host, _, err := net.SplitHostPort(w.names.conn.LocalAddr().String())
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.dir, "resolv.conf"), []byte("nameserver "+host+"\noptions timeout:1 attempts:1\n"), 0o644))
}

// reach is the address of a wire as lockrun is told it.
func (w *world) reach(addr, name string) string {
	if !w.named {
		return addr
	}
	_, port, err := net.SplitHostPort(addr)
	w.must(err)
	return name + ".chaos.test:" + port
}

func moody(mood int32) func(*world, plannedFault) error {
	return func(w *world, _ plannedFault) error {
		if !w.named {
			return os.ErrPermission
		}
		w.names.mood.Store(mood)
		return nil
	}
}

func cheerUp(w *world, _ plannedFault) {
	if w.named {
		w.names.mood.Store(answering)
	}
}
