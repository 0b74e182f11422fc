package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Migration is one step of a schema. Once released it never changes: what it
// left in someone's file is what the next step builds on.
type Migration struct {
	Number int    // 1, 2, 3 … without a gap
	Name   string // for messages
	SQL    string // one or more statements, run in one transaction
}

// migrate takes the steps that the file lacks, all or none. Of two processes
// that open a file at the same moment one takes them and the other finds them
// taken.
func (d *DB) migrate(ctx context.Context, steps []Migration) error {
	for i, m := range steps {
		if m.Number != i+1 {
			return fmt.Errorf("migration %q has number %d in place %d", m.Name, m.Number, i+1)
		}
	}
	have, err := d.schema(ctx)
	if err != nil || have == len(steps) {
		return err
	}
	if err := d.useWAL(ctx); err != nil {
		return err
	}
	return d.Update(ctx, func(tx *Tx) error { return step(ctx, tx, steps) })
}

// step asks again how far the file is, since the transaction has begun only now.
func step(ctx context.Context, tx *Tx, steps []Migration) error {
	have, err := schemaOf(ctx, tx)
	if err != nil {
		return err
	}
	if have > len(steps) {
		return newer(have, len(steps))
	}
	for _, m := range steps[have:] {
		if _, err := tx.c.ExecContext(ctx, m.SQL); err != nil {
			return fmt.Errorf("migration %d, %s: %w", m.Number, m.Name, err)
		}
	}
	_, err = tx.c.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(steps)))
	return err
}

func (d *DB) schema(ctx context.Context) (have int, err error) {
	err = d.View(ctx, func(tx *Tx) error {
		have, err = schemaOf(ctx, tx)
		return err
	})
	return have, err
}

// applicationID identifies a database of Sandpiper in the SQLite header. It changes when
// the numbering of schemas starts again at 1.
const applicationID = 0x53504452 // "SPDR"

// schemaOf returns the schema of the file, 0 if it is new. It refuses a file with another
// application id: its schema number has another meaning.
func schemaOf(ctx context.Context, tx *Tx) (have int, err error) {
	var application int
	err = tx.QueryRowContext(ctx, "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").Scan(&application, &have)
	if err == nil && application != applicationID && (application != 0 || have != 0) {
		return 0, foreign(application, have)
	}
	return have, err
}

// useWAL switches the file to a write-ahead log, so that readers and a writer
// do not wait for each other. SQLite's own waiting does not cover every way in
// which two processes meet here, so it is tried again.
func (d *DB) useWAL(ctx context.Context) error {
	c, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.give(c)
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
	if application == 0 {
		what = fmt.Sprintf("was created by a pre-release version of Sandpiper (schema %d)", have)
	}
	return fault.New(fault.Unavailable, "the database %s and cannot be opened", what).
		WithHint("it cannot be converted: move the directory that contains it away to start with an empty database, or use another data directory")
}

func newer(have, known int) error {
	return fault.New(fault.Unavailable,
		"the database has schema %d, this Sandpiper knows schemas up to %d", have, known).
		WithHint("a newer Sandpiper has used this data directory: update this one, or give it a data directory of its own")
}

// isFault reports whether err already has a sentence.
func isFault(err error) bool {
	_, ok := errors.AsType[*fault.Error](err)
	return ok
}
