package locks

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o640); err != nil {
			t.Fatal(err)
		}
		return path
	}
	content, mode, err := ReadRegular(write("largest", maxFile))
	if err != nil || len(content) != maxFile || mode != 0o640 {
		t.Errorf("%d bytes, %v, %v", len(content), mode, err)
	}
	for path, text := range map[string]string{
		write("larger", maxFile+1):    "larger than 1 MiB",
		dir:                           "not a regular file",
		"/dev/zero":                   "not a regular file",
		filepath.Join(dir, "missing"): "no such file",
	} {
		_, _, err := ReadRegular(path)
		if err == nil || strings.Count(err.Error(), path) != 1 || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
