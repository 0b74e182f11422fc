package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

// Name is a name with a short description.
type Name struct{ Name, About string }

// Names returns the rows of a query for a name and its description in the existing database file
// at path. It creates, migrates and writes nothing, and the query must fit the schema of the file.
func Names(ctx context.Context, path, query string) (all []Name, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	flags := "?mode=ro&_pragma=query_only(1)"
	if _, err := os.Lstat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		flags += "&immutable=1" // no process has it open; SQLite would create the files of a log, and leave them
	}
	connector, err := sqlite.NewConnector(location(path) + flags)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n Name
		if err := rows.Scan(&n.Name, &n.About); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, explain(rows.Err())
}
