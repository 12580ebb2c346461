//go:build unix

package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A file that a connection string or a variable names is read before any server
// is asked: it must not hang, nor fill the memory.
func TestFilesThatNeverEnd(t *testing.T) {
	home := isolate(t)
	fifo := filepath.Join(t.TempDir(), "it's a fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large, service := filepath.Join(t.TempDir(), "large"), filepath.Join(t.TempDir(), "service")
	if err := os.WriteFile(large, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(service, []byte("# two\n[other]\nhost=other\n\n[mine]\nhost=db\nsslrootcert = "+fifo+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(t *testing.T, dsn string, says ...string) {
		t.Helper()
		done := make(chan error, 1)
		go func() {
			_, err := ParseDSN(dsn)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Fatal("accepted")
			}
			wantText(t, err, says...)
		case <-time.After(20 * time.Second):
			t.Fatal("it hangs")
		}
	}
	for _, f := range namedFiles {
		for name, path := range map[string]string{"fifo": fifo, "endless": "/dev/zero", "large": large} {
			says := []string{f.key, fmt.Sprintf("%q", path)}
			t.Run(name+"_"+f.key, func(t *testing.T) {
				escaped := strings.ReplaceAll(path, " ", "%20")
				refused(t, "postgres://u@db/x?service=mine&"+f.key+"="+escaped, says...)
				refused(t, "postgres://u@db/x?service=mine&"+f.key[:2]+fmt.Sprintf("%%%x", f.key[2])+f.key[3:]+"="+escaped, says...)
				refused(t, fmt.Sprintf("host=db user=u service=mine %s=/no/such %s='%s'", f.key, f.key, strings.ReplaceAll(path, "'", `\'`)), says...)
			})
			t.Run(name+"_"+f.env, func(t *testing.T) {
				t.Setenv("PGSERVICE", "mine")
				t.Setenv(f.env, path)
				refused(t, "postgres://u@db/x", says...)
			})
		}
		t.Run("home_"+f.key, func(t *testing.T) {
			path := filepath.Join(home, f.home)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Remove(path) }()
			refused(t, "postgres://u@db/x?service=mine", f.key, path)
		})
	}
	t.Run("named_by_service", func(t *testing.T) {
		refused(t, "service=mine servicefile="+service, "sslrootcert", "fifo")
		if _, err := ParseDSN("user=u service=other servicefile=" + service); err != nil {
			t.Error(err)
		}
	})
	t.Run("switched_off", func(t *testing.T) {
		t.Setenv("PGPASSFILE", os.DevNull)
		if _, err := ParseDSN("postgres://u@db/x?sslmode=verify-full&sslrootcert=system"); err != nil {
			t.Error(err)
		}
	})
}
