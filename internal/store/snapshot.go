package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Snapshot copies the database file at from, as of one moment, to the new file to. Any process may
// read and write the database at the same time. Nothing that was deleted is in the copy. It fails with
// fs.ErrNotExist if there is no database, and applies no migrations.
func Snapshot(ctx context.Context, from, to string) (err error) {
	if from, err = filepath.Abs(from); err != nil {
		return fault.Wrap(fault.Internal, err, "the working directory does not exist")
	}
	if err := checkFiles(ctx, from); err != nil {
		return err
	}
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := create(to); err != nil { // SQLite accepts an empty file, and would apply the umask to a new one
		return err
	}
	if err := execute(ctx, from, "VACUUM INTO ?", to); err != nil {
		return explain(err)
	}
	return explain(execute(ctx, to, "PRAGMA journal_mode = WAL")) // which the copy does not inherit
}

// Examine reports whether an existing database and its log are complete and undamaged. A missing database
// is not damaged.
func Examine(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the working directory does not exist")
	}
	if err := checkFiles(ctx, path); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return creationFault(err)
	}
	return CheckIntegrity(ctx, path)
}

// CheckIntegrity runs SQLite's integrity_check, which reads every page and index, on an existing
// database file.
func CheckIntegrity(ctx context.Context, path string) (err error) {
	db, err := openExisting(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var found string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
		return explain(err)
	}
	if found != "ok" {
		return damagedFault(errors.New(found))
	}
	return nil
}

// execute runs one statement on an existing database file.
func execute(ctx context.Context, path, statement string, args ...any) (err error) {
	db, err := openExisting(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, statement, args...)
	return err
}

func openExisting(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the working directory does not exist")
	}
	connector, err := sqlite.NewConnector(location(path) + settings + "&mode=rw")
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the database path is not usable")
	}
	return sql.OpenDB(connector), nil
}
