package locks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxFile bounds what is read of a file that an option names, in bytes.
const maxFile = 1 << 20

// ReadRegular reads a file that an option names, and tells its mode. It refuses
// what might never end, a pipe or a device, and more than 1 MiB. Its errors quote
// the path.
func ReadRegular(path string) (content []byte, mode fs.FileMode, err error) {
	defer func() {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		if err != nil {
			err = fmt.Errorf("%q: %w", path, err)
		}
	}()
	info, err := os.Stat(path) // before it is opened: that alone may move a device
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	// It may be another file by now; a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	content, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		return nil, 0, errors.New("larger than 1 MiB")
	}
	return content, info.Mode(), err
}
