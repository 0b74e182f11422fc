package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

var errBusy = errors.New("the database is in use")

// checkEvery is how often Check reads all of the file.
const checkEvery = 10 * time.Minute

// health is what is known of a database's file.
type health struct {
	file os.FileInfo // as it was opened

	mu      sync.Mutex
	damaged error     // SQLite came upon damage
	read    time.Time // when all of it was read last, without damage
}

// here refuses a file that is not the one that was opened. What is written to one
// that was deleted or replaced is lost with this process.
func (d *DB) here() error {
	now, err := os.Stat(d.path)
	switch {
	case err == nil && os.SameFile(now, d.health.file):
		return nil
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Unavailable, "the database was deleted or replaced while it was open").
			WithHint("stop Sandpiper, restore the tenant's database from a backup, and start it again")
	}
	return creationFault(err)
}

// note remembers that SQLite came upon damage.
func (h *health) note(err error) {
	if c := code(err); c != sqlite3.SQLITE_CORRUPT && c != sqlite3.SQLITE_NOTADB {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.damaged = explain(err)
}

// Check reports whether the database can be used: that its file is there, has a
// schema that is known here, and is not damaged. It reads all of the file if it has
// not for some time.
func (d *DB) Check(ctx context.Context) error {
	if err := d.here(); err != nil {
		return err
	}
	have, err := d.schema(ctx)
	if err != nil {
		return err
	}
	if have > d.steps {
		return newer(have, d.steps)
	}
	d.health.mu.Lock()
	damaged, due := d.health.damaged, time.Since(d.health.read) > checkEvery
	d.health.mu.Unlock()
	if damaged != nil || !due {
		return damaged
	}
	if err := d.readAll(ctx); err != nil {
		return err
	}
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	d.health.read = time.Now()
	return nil
}

// readAll has SQLite look at every page.
func (d *DB) readAll(ctx context.Context) error {
	var found string
	err := d.View(ctx, func(tx *Tx) error { return tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found) })
	if err == nil && found != "ok" {
		err = damage(errors.New(found))
		d.health.mu.Lock()
		defer d.health.mu.Unlock()
		d.health.damaged = err
	}
	return err
}

func damage(err error) error {
	return fault.Wrap(fault.Internal, err, "the database is damaged").
		WithHint("restore it from a backup, or move its directory away to start with an empty one")
}

// missingFile reports that the database in the file at path is gone, though its write-ahead
// log is there.
func missingFile(path string) error {
	_, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if fi, err := os.Lstat(path + "-wal"); err == nil && fi.Size() > 0 {
		return fault.New(fault.Internal, "the database %s is gone, and its write-ahead log is there", filepath.Base(path)).
			WithHint("restore both from a backup, or move the directory that they are in away to start with an empty one")
	}
	return nil
}
