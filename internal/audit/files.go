package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// suffix of a file, whose name is the number of its first line: names are in the order of
// the chain.
const suffix = ".jsonl"

// maxSeq is the limit of the digits of a file name.
const maxSeq = 1e16

var fileForm = regexp.MustCompile(`^[0-9]{16}\.jsonl$`)

func isFile(name string) bool { return fileForm.MatchString(name) }

func fileName(first int64) string { return fmt.Sprintf("%016d%s", first, suffix) }

// firstOf returns the number of the first line of a file.
func firstOf(name string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(name, suffix), 10, 64)
	return n
}

// list returns the files of a log, in order. A missing directory is not an error.
func list(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, explain(err)
	}
	for _, e := range entries {
		if isFile(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// maxLine is more than the longest line that the log writes.
const maxLine = 256 << 10

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxLine) }

// next returns a line without its line break, valid until the next call, and its size. A
// line over maxLine is nil. io.EOF is returned with the size of an incomplete line.
func next(r *bufio.Reader) (line []byte, n int64, err error) {
	line, err = r.ReadSlice('\n')
	n = int64(len(line))
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = r.ReadSlice('\n')
		n += int64(len(line))
		line = nil
	}
	if err != nil || line == nil {
		return nil, n, err
	}
	return line[:len(line)-1], n, nil
}

func explain(err error) error {
	if _, own := errors.AsType[*fault.Error](err); err == nil || own {
		return err
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(fault.Exhausted, err, "the disk that holds the audit log is full").
			WithHint("free space on the disk of the data directory; written lines are safe")
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Unavailable, err, "the audit log cannot be read or written: its directory or a file in it is closed to "+
			"this user, or read-only").
			WithHint("the directory audit in the data directory must belong to the user that runs Sandpiper and be writable")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fault.Wrap(fault.Unavailable, err, "the directory of the audit log cannot be created: a file has its name").
			WithHint("move the file audit in the data directory away")
	}
	if errors.Is(err, syscall.EIO) {
		return fault.Wrap(fault.Unavailable, err, "the disk failed while the audit log was read or written").
			WithHint("check the disk of the data directory")
	}
	return fault.Wrap(fault.Unavailable, err, "the audit log cannot be read or written at the moment; try again")
}
