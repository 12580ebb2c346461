package quorum

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFirstWords is what a new connection sends: nothing that is no use.
func TestFirstWords(t *testing.T) {
	for _, test := range []struct {
		name, login, database string
		want                  []string
	}{
		{"plain", "", "", []string{"set", "get", "pttl"}},
		{"login", "usr:s3cret@", "", []string{"hello", "set", "get", "pttl"}},
		{"password", ":s3cret@", "", []string{"hello", "set", "get", "pttl"}},
		{"database", "", "/3", []string{"select", "set", "get", "pttl"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			url := fakeNode(t, func(c []string) string {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, c[0])
				return ""
			})
			acquire(t, open(t, time.Minute, []string{strings.Replace(url, "redis://", "redis://"+test.login, 1) + test.database}), claim("host"))
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, test.want) {
				t.Errorf("sends %q, want %q", got, test.want)
			}
		})
	}
}

// deadlines keeps what is set on a connection.
type deadlines struct {
	net.Conn
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return d.Conn.SetReadDeadline(t)
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return d.Conn.SetWriteDeadline(t)
}

// TestDeadlines are kept, and none is left behind to wake the process later.
func TestDeadlines(t *testing.T) {
	far, near := net.Pipe()
	defer func() { _ = far.Close() }()
	inner := &deadlines{Conn: near}
	c := bound(inner)
	defer func() { _ = c.Close() }()
	for _, test := range []struct {
		name string
		set  func(time.Time) error
		use  func([]byte) (int, error)
		seen *[]time.Time
	}{
		{"read", c.SetReadDeadline, c.Read, &inner.read},
		{"write", c.SetWriteDeadline, c.Write, &inner.write},
		{"read", c.SetDeadline, c.Read, &inner.read},
		{"write", c.SetDeadline, c.Write, &inner.write},
	} {
		*test.seen = nil
		at := time.Now().Add(10 * time.Millisecond)
		if err := test.set(at); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a message may take several
			if _, err := test.use([]byte("+OK\r\n")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: got %v, though nobody is at the other end", test.name, err)
			}
		}
		if want := []time.Time{at, {}, at, {}}; !slices.EqualFunc(*test.seen, want, time.Time.Equal) {
			t.Errorf("%s: deadlines %v, want %v", test.name, *test.seen, want)
		}
	}
}
