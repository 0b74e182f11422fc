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

// code returns SQLite's primary result code, or 0 for an error of another origin.
func code(err error) int { return extendedCode(err) & 0xff }

func extendedCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// cannotOpen reports whether SQLite could not open a file: the database, its
// write-ahead log (-wal) or the index of the log (-shm).
func cannotOpen(err error) bool {
	return code(err) == sqlite3.SQLITE_CANTOPEN || extendedCode(err) == sqlite3.SQLITE_IOERR_SHMOPEN
}

// descriptorShortage returns an error if the process has no free file descriptors.
// SQLite does not report why it cannot open a file.
func descriptorShortage() error {
	f, err := os.Open(os.DevNull)
	if err == nil {
		return f.Close()
	}
	if fault.NoDescriptors(err) {
		return err
	}
	return nil
}

// explain converts an error of SQLite to a fault and returns other errors unchanged.
func explain(err error) error {
	if err == nil || isFault(err) {
		return err
	}
	switch extendedCode(err) {
	case sqlite3.SQLITE_IOERR_SHMSIZE: // no space for the -shm file
		return diskFullFault(err)
	case sqlite3.SQLITE_IOERR_IN_PAGE: // a page of the -shm file has no space on the disk, or it cannot be read
		return fault.Wrap(fault.Exhausted, err, "the disk of the database is full or failed").
			WithHint("free space on the disk of the data directory, or check it; changes confirmed before are safe")
	case sqlite3.SQLITE_IOERR_SHORT_READ:
		return fault.Wrap(fault.Unavailable, err, "a file of the database is shorter than it has to be").
			WithHint("stop other programs that change it, and check it with: `sandpiper doctor --data`")
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return damagedFault(err)
	case sqlite3.SQLITE_FULL:
		return diskFullFault(err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return readOnlyFault(err)
	case sqlite3.SQLITE_CANTOPEN:
		return fault.Wrap(fault.Unavailable, err, "the database cannot be opened").
			WithHint("the data directory and the files in it must belong to the user that runs Sandpiper and be writable")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Wrap(fault.Unavailable, err, "the database was busy for more than 5 seconds; try again")
	case sqlite3.SQLITE_IOERR:
		return fault.Wrap(fault.Unavailable, err, "the disk failed while the database was read or written").
			WithHint("check the disk of the data directory; changes confirmed before are safe")
	}
	return err
}

func creationFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return diskFullFault(err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return readOnlyFault(err)
	}
	return fault.Wrap(fault.Unavailable, err, "the database cannot be created")
}

func diskFullFault(err error) error {
	return fault.Wrap(fault.Exhausted, err, "the disk of the database is full").
		WithHint("free space on the disk of the data directory; changes confirmed before are safe")
}

func readOnlyFault(err error) error {
	return fault.Wrap(fault.Unavailable, err, "the database cannot be written: its file or directory is read-only").
		WithHint("the data directory must belong to the user that runs Sandpiper and be writable")
}

// ErrDamaged is in the chain of an error if a check has proved that a database, or its log, is damaged
// or incomplete.
var ErrDamaged = errors.New("a check found damage")

// proven returns the error of a database that a check has proved to be damaged.
func proven(cause error, format string, args ...any) *fault.Error {
	return fault.Wrap(fault.Internal, errors.Join(ErrDamaged, cause), format, args...)
}

func damagedFault(err error) error {
	return proven(err, "the database is damaged").
		WithHint("restore it from a backup, or move its directory away to start with an empty database")
}
