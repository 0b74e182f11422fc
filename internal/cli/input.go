package cli

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// OpenInput opens a file that a command reads once from its start. It may be a pipe, such as a shell
// creates for <(…). A pipe that no process writes to is an error: opening it would block, which no
// signal could end.
func OpenInput(path string) (io.ReadCloser, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if fi.Mode()&fs.ModeNamedPipe == 0 {
		return f, nil
	}
	r := bufio.NewReader(f)
	if _, err := r.Peek(1); err == io.EOF {
		return nil, errors.Join(fault.New(fault.Invalid, "%s is a pipe that no process writes to", path).
			WithHint("start the process that writes to it first, or give a regular file"), f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{r, f}, nil
}

// InputFault reports that a file cannot be read. Its cause is an error of openInput.
func InputFault(what string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Invalid, err, "%s: %v", what, err)
}

// ReadInput reads a whole file that may be a pipe, at most max bytes and one.
func ReadInput(path string, max int64) ([]byte, error) {
	f, err := OpenInput(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, max+1))
}

// ByteOrderMark may precede UTF-8 text, and is not part of it.
var ByteOrderMark = []byte("\xef\xbb\xbf")
