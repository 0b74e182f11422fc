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

// fullCheckInterval is the time between two checks that read the whole file.
const fullCheckInterval = 10 * time.Minute

// health is the known state of a database file.
type health struct {
	file os.FileInfo // when it was opened

	mu        sync.Mutex
	damaged   error     // the damage that SQLite reported, or nil
	fullCheck time.Time // time of the last check of the whole file that found no damage
}

// checkFile fails if the file at the path is not the one that was opened. Changes
// written to a deleted or replaced file are lost when this process ends.
func (d *DB) checkFile() error {
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

// recordDamage records an error with which SQLite reports damage; it ignores others.
func (h *health) recordDamage(err error) {
	if c := code(err); c != sqlite3.SQLITE_CORRUPT && c != sqlite3.SQLITE_NOTADB {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.damaged = explain(err)
}

// Check returns nil if the database is usable: its file exists, has a supported
// schema version and is not damaged. It reads the whole file if the last full check
// is older than fullCheckInterval.
func (d *DB) Check(ctx context.Context) error {
	if err := d.checkFile(); err != nil {
		return err
	}
	have, err := d.schemaVersion(ctx)
	if err != nil {
		return err
	}
	if have > d.version {
		return newerSchemaFault(have, d.version, "")
	}
	d.health.mu.Lock()
	damaged, due := d.health.damaged, time.Since(d.health.fullCheck) > fullCheckInterval
	d.health.mu.Unlock()
	if damaged != nil || !due {
		return damaged
	}
	if err := d.quickCheck(ctx); err != nil {
		return err
	}
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	d.health.fullCheck = time.Now()
	return nil
}

// quickCheck runs SQLite's quick_check, which reads every page.
func (d *DB) quickCheck(ctx context.Context) error {
	var found string
	err := d.View(ctx, func(tx *Tx) error { return tx.c.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found) })
	if err == nil && found != "ok" {
		err = damagedFault(errors.New(found))
		d.health.mu.Lock()
		defer d.health.mu.Unlock()
		d.health.damaged = err
	}
	return err
}

// checkFiles fails if the database at path, or its write-ahead log, is missing or damaged. It
// changes neither.
func checkFiles(ctx context.Context, path string) error {
	if err := errors.Join(checkFileExists(path), checkLog(path+"-wal")); err != nil {
		return err
	}
	return checkEnd(ctx, path)
}

// checkFileExists fails if the database file at path is missing but its write-ahead
// log exists.
func checkFileExists(path string) error {
	_, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if fi, err := os.Lstat(path + "-wal"); err == nil && fi.Size() > 0 {
		return proven(nil, "the database %s is missing, but its write-ahead log exists", filepath.Base(path)).
			WithHint("restore both from a backup, or move their directory away to start with an empty database")
	}
	return nil
}

// Schema returns the definitions of all tables, indexes, triggers and views, without those of this package.
func (d *DB) Schema(ctx context.Context) (text string, err error) {
	err = d.View(ctx, func(tx *Tx) error {
		return tx.QueryRowContext(ctx, `SELECT coalesce(group_concat(type || char(10) || name || char(10) || coalesce(sql, ''), char(10)), '')
			FROM (SELECT type, name, sql FROM sqlite_schema WHERE name <> 'sqlite_stat1' AND sql IS NOT ? ORDER BY type, name)`, commitsTable).Scan(&text)
	})
	return text, err
}

// IsWAL reports whether the file has a write-ahead log, as every file that Open created.
func (d *DB) IsWAL(ctx context.Context) (bool, error) {
	var mode string
	err := d.View(ctx, func(tx *Tx) error { return tx.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode) })
	return mode == "wal", err
}
