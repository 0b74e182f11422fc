package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Migration is one change of the schema. It must not be edited once released:
// existing files contain its result, and the next migration depends on it.
type Migration struct {
	Number int    // 1, 2, 3 … without a gap
	Name   string // for error messages
	SQL    string // one or more statements, run in one transaction
}

// Feature has the tables of a feature, which are numbered on their own: programs with and without it
// may use the same file.
type Feature struct {
	Name       string
	Migrations []Migration
}

// featureTable has the schema version of each feature.
const featureTable = `CREATE TABLE IF NOT EXISTS features (
	name    TEXT    NOT NULL PRIMARY KEY,
	version INTEGER NOT NULL
) STRICT`

// migrate applies the missing migrations, all or none. If two processes open a file
// at the same time, one applies them and the other finds them applied.
func (d *DB) migrate(ctx context.Context, migrations []Migration, features []Feature) error {
	for _, all := range append([]Feature{{"", migrations}}, features...) {
		for i, m := range all.Migrations {
			if m.Number != i+1 {
				return fmt.Errorf("migration %q has number %d at position %d", m.Name, m.Number, i+1)
			}
		}
	}
	missing := true
	err := d.View(ctx, func(tx *Tx) error {
		have, err := schemaOf(ctx, tx)
		if err == nil && have == len(migrations) {
			missing, err = missesFeatures(ctx, tx, features)
		}
		return err
	})
	if err != nil || !missing {
		return err
	}
	if err := d.useWAL(ctx); err != nil {
		return err
	}
	return d.Update(ctx, func(tx *Tx) error { return applyMissing(ctx, tx, migrations, features) })
}

// applyMissing applies the missing migrations. It reads the version of the file again,
// since another process may have changed it before this transaction began.
func applyMissing(ctx context.Context, tx *Tx, migrations []Migration, features []Feature) error {
	have, err := schemaOf(ctx, tx)
	if err != nil {
		return err
	}
	if err := apply(ctx, tx, have, migrations, ""); err != nil {
		return err
	}
	if _, err := tx.c.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID,
		len(migrations))); err != nil || len(features) == 0 {
		return err
	}
	if _, err := tx.c.ExecContext(ctx, featureTable); err != nil {
		return err
	}
	versions, err := featureVersions(ctx, tx)
	if err != nil {
		return err
	}
	for _, f := range features {
		if err := apply(ctx, tx, versions[f.Name], f.Migrations, f.Name); err != nil {
			return err
		}
		if _, err := tx.c.ExecContext(ctx, "INSERT OR REPLACE INTO features VALUES (?, ?)", f.Name, len(f.Migrations)); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the migrations after those that the file has; feature is their owner, "" for the core.
func apply(ctx context.Context, tx *Tx, have int, migrations []Migration, feature string) error {
	if have > len(migrations) {
		return newerSchemaFault(have, len(migrations), feature)
	}
	for _, m := range migrations[have:] {
		if _, err := tx.c.ExecContext(ctx, m.SQL); err != nil {
			return fmt.Errorf("migration %d, %s: %w", m.Number, m.Name, err)
		}
	}
	return nil
}

// missesFeatures reports whether a file lacks tables of some features, and fails if it has newer ones.
func missesFeatures(ctx context.Context, tx *Tx, features []Feature) (missing bool, err error) {
	if len(features) == 0 {
		return false, nil
	}
	have, err := featureVersions(ctx, tx)
	for _, f := range features {
		if err == nil && have[f.Name] > len(f.Migrations) {
			err = newerSchemaFault(have[f.Name], len(f.Migrations), f.Name)
		}
		missing = missing || have[f.Name] < len(f.Migrations)
	}
	return missing, err
}

// featureVersions returns the schema version of each feature of which the file has tables.
func featureVersions(ctx context.Context, tx *Tx) (map[string]int, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name, version FROM features")
	if err != nil {
		if strings.Contains(err.Error(), "no such table") {
			return nil, nil
		}
		return nil, err
	}
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var name string
		var version int
		if err := rows.Scan(&name, &version); err != nil {
			return nil, err
		}
		all[name] = version
	}
	return all, rows.Err()
}

// schemaVersion returns the number of the last migration applied to the file.
func (d *DB) schemaVersion(ctx context.Context) (have int, err error) {
	err = d.View(ctx, func(tx *Tx) error {
		have, err = schemaOf(ctx, tx)
		return err
	})
	return have, err
}

// applicationID identifies a database of Sandpiper in the SQLite header. It changes when
// the numbering of schemas starts again at 1.
const applicationID = 0x53504950 // "SPIP"

// earlierID identifies a database of a development version before the first release.
const earlierID = 0x53504452

// schemaOf returns the schema of the file, 0 if it is new. It refuses a file with another
// application id: its schema number has another meaning.
func schemaOf(ctx context.Context, tx *Tx) (have int, err error) {
	var application int
	err = tx.QueryRowContext(ctx, "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").
		Scan(&application, &have)
	if err == nil && application != applicationID && (application != 0 || have != 0) {
		return 0, foreign(application, have)
	}
	return have, err
}

// useWAL switches the file to a write-ahead log, so that readers and a writer
// do not wait for each other. busy_timeout does not apply to every conflict of two
// processes here, so the statement is retried.
func (d *DB) useWAL(ctx context.Context) error {
	c, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer d.release(c)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for attempt := 0; ; attempt++ {
		_, err := c.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		if code(err) != sqlite3.SQLITE_BUSY || attempt == 500 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func foreign(application, have int) error {
	what := fmt.Sprintf("has SQLite application id %#x instead of %#x", application, applicationID)
	if application == 0 || application == earlierID {
		what = fmt.Sprintf("was created by a pre-release version of Sandpiper (schema %d)", have)
	}
	return fault.New(fault.Unavailable, "the database %s and cannot be opened", what).
		WithHint("it cannot be converted: move the directory that contains it away to start with an empty database, or use another data " +
			"directory")
}

func newerSchemaFault(have, known int, feature string) error {
	of := ""
	if feature != "" {
		of = " of the feature " + feature
	}
	return fault.New(fault.Unavailable,
		"the database has schema version %d%s, but this version of Sandpiper supports versions up to %d", have, of, known).
		WithHint("a newer version of Sandpiper has used this data directory: update Sandpiper, or use another data directory")
}

// isFault reports whether err is already a fault.
func isFault(err error) bool {
	_, ok := errors.AsType[*fault.Error](err)
	return ok
}
