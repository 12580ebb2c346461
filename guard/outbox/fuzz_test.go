package outbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
)

// FuzzRead takes whatever a crash or somebody else has left: it is an entry as
// keep writes them, or an error.
func FuzzRead(f *testing.F) {
	const id = "6b4f3c1e-8d4b-4e0e-9a53-0f6d2c1b7a90"
	good, err := json.Marshal(&letter{Format: format, Store: "s", Name: "eod", RunDate: "2026-01-01", RunID: id, Outcome: "succeeded", AtLeast: "0s"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(good, good...))
	f.Add(good[:len(good)/2])
	f.Add([]byte("null"))
	f.Add([]byte(`{"format":1e9}`))
	path := filepath.Join(f.TempDir(), id+suffix)
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := read(path)
		if (l == nil) != (err != nil) {
			t.Fatalf("%q: %+v, %v", content, l, err)
		}
		if err != nil {
			return
		}
		if parsed, err := uuid.Parse(l.RunID); err != nil || parsed.String() != id || l.Name == "" || l.atLeast < 0 {
			t.Errorf("%q was taken as %+v", content, l)
		}
	})
}
