package store

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// code returns SQLite's primary result code, 0 for another error.
func code(err error) int { return extended(err) & 0xff }

func extended(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// cannotOpen reports whether SQLite could not open a file: the database, its log or
// the log's index.
func cannotOpen(err error) bool {
	return code(err) == sqlite3.SQLITE_CANTOPEN || extended(err) == sqlite3.SQLITE_IOERR_SHMOPEN
}

// shortage returns the error of a process that has no free descriptors, nil while
// it has some. SQLite does not tell the cause of what it cannot open.
func shortage() error {
	f, err := os.Open(os.DevNull)
	if err == nil {
		return f.Close()
	}
	if fault.NoDescriptors(err) {
		return err
	}
	return nil
}

// explain gives SQLite's errors their sentence and leaves others as they are.
func explain(err error) error {
	if err == nil || isFault(err) {
		return err
	}
	if extended(err) == sqlite3.SQLITE_IOERR_SHMSIZE { // the log's index did not find room
		return full(err)
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return damage(err)
	case sqlite3.SQLITE_FULL:
		return full(err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return readOnly(err)
	case sqlite3.SQLITE_CANTOPEN:
		return fault.Wrap(fault.Unavailable, err, "the database cannot be opened").
			WithHint("the data directory and the files in it must belong to the user that runs Sandpiper and be writable")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Wrap(fault.Unavailable, err, "the database was busy for more than 5 seconds; try again")
	case sqlite3.SQLITE_IOERR:
		return fault.Wrap(fault.Unavailable, err, "the disk failed while the database was read or written")
	}
	return err
}

func creationFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return full(err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return readOnly(err)
	}
	return fault.Wrap(fault.Unavailable, err, "the database cannot be created")
}

func full(err error) error {
	return fault.Wrap(fault.Exhausted, err, "the disk that holds the database is full").
		WithHint("make room on the disk of the data directory; what was answered before is safe")
}

func readOnly(err error) error {
	return fault.Wrap(fault.Unavailable, err, "the database cannot be written: its file or directory is read-only").
		WithHint("the data directory must belong to the user that runs Sandpiper and be writable")
}
