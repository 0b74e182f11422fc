// Package store opens a tenant's database: one SQLite file that contains all
// data of the tenant except its workspace files.
//
// A migration is one numbered change of the schema; the schema version of a file
// is the number of the last migration applied to it. A transaction of Update is on
// disk when Update returns nil: it survives kill -9 and a loss of power.
// UpdateDeferredSync is much faster and syncs within 50 milliseconds after the
// commit. A DB is safe for concurrent use, and any number of processes may open
// one file.
//
// Its only table holds the number of the last commit. The packages that own tables provide their
// migrations and their SQL; the caller of Open combines the migrations.
package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// settings apply to every connection. The journal mode is stored in the file and
// set once, by migrate. The cache has few pages because thousands of databases may
// be open: the kernel caches their files once.
const settings = "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=synchronous(FULL)&_pragma=cache_size(-64)&_dqs=0"

// connections limits the open connections. SQLite runs one write at a time, so
// more connections would serve readers only.
const connections = 4

// DB is an open database.
type DB struct {
	conns
	path        string
	version     int // number of the last known migration
	log         syncer
	end         ender
	checkpoints checkpointer
	health      health
	writer      writerLock // held while a write transaction runs
	changes     atomic.Pointer[Changes]

	used atomic.Int64 // when the last transaction ended; Unix nanoseconds
}

// Open opens the database file at path, creates it if it does not exist, and
// applies the missing migrations. The directory must exist. Open refuses a file
// whose schema is newer than the last migration, also that of a feature.
func Open(ctx context.Context, path string, migrations []Migration, features ...Feature) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the working directory does not exist")
	}
	if err := checkFiles(ctx, path); err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, err
	}
	file, err := os.Stat(path)
	if err != nil {
		return nil, creationFault(err)
	}
	connector, err := sqlite.NewConnector(location(path) + settings)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the database path is not usable")
	}
	db := &DB{
		conns:   conns{db: sql.OpenDB(connector), slots: make(chan struct{}, connections)},
		path:    path,
		version: len(migrations),
		health:  health{file: file},
		writer:  make(writerLock, 1),
	}
	db.log.path, db.log.checkpoint, db.log.end = path+"-wal", db.checkpointAll, &db.end
	db.end.path = endPath(path)
	db.db.SetMaxIdleConns(-1) // conns.idle is reused instead, with its prepared statements
	if err := db.migrate(ctx, migrations, features); err != nil {
		db.Close()
		return nil, explain(err)
	}
	return db, nil
}

// Path returns the path of the database file.
func Path(d *DB) string { return d.path }

// Close closes the database. It is idempotent.
func (d *DB) Close() error {
	d.checkpoints.close()
	err := d.log.close() // may use the idle connection
	if again, closed := d.conns.close(); !again {
		err = errors.Join(err, closed)
		d.end.finish()
	}
	return explain(err)
}

// Update runs f in a write transaction. Only one write transaction runs at a time,
// over all processes; its changes become visible when all of them are on disk.
// If f returns an error, the transaction is rolled back.
func (d *DB) Update(ctx context.Context, f func(*Tx) error) error {
	return d.transact(ctx, write, f)
}

// UpdateDeferredSync is Update for frequent writes. A committed transaction survives
// any end of this process at once, and a loss of power after syncDelay (50 ms).
// The call does not wait for the disk unless the previous sync failed.
func (d *DB) UpdateDeferredSync(ctx context.Context, f func(*Tx) error) error {
	if d.log.failed() != nil {
		return d.transact(ctx, write, f)
	}
	err := d.transact(ctx, writeDeferred, f)
	if err == nil {
		d.log.scheduleSync()
	}
	return err
}

// Sync returns when what UpdateDeferredSync has committed is on disk. Committing in that way and
// calling Sync is faster than Update, and other transactions need not wait for the disk; they may
// see changes that a loss of power undoes.
func (d *DB) Sync() error { return d.log.now() }

// View runs f in a read transaction: it sees one snapshot of the database,
// regardless of concurrent writes.
func (d *DB) View(ctx context.Context, f func(*Tx) error) error {
	return d.transact(ctx, read, f)
}

// Compact rebuilds the file (VACUUM) and empties its log, so that no deleted data
// remains in either. During this time other connections can read but not write. It
// fails if other connections read without interruption for some seconds.
func (d *DB) Compact(ctx context.Context) error {
	c, err := d.acquire(ctx)
	if err != nil {
		return explain(err)
	}
	defer d.release(c)
	if _, err := c.ExecContext(ctx, "VACUUM"); err != nil {
		return explain(err)
	}
	// The number tells other processes that pages have changed.
	if err := d.Update(ctx, func(tx *Tx) error { tx.changed = true; return nil }); err != nil {
		return err
	}
	if changes := d.changes.Load(); changes != nil {
		changes.PutBack(nil)
	}
	return explain(c.truncateLog(ctx))
}

// checkpointAll moves the whole log into the database file and syncs that. It does
// not wait for other connections, and fails while one reads an older snapshot.
func (d *DB) checkpointAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), descriptorWait)
	defer cancel()
	c, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer d.release(c)
	var busy, pages, moved int
	if err := c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &moved); err != nil {
		return err
	}
	if busy != 0 || pages != moved {
		return errors.New("the log is in use")
	}
	return nil
}

// truncateLog moves the log into the database file and truncates it. While SQLite
// waits for readers here, all writers are blocked; so each attempt waits for 50 ms
// only, and is repeated.
func (c *conn) truncateLog(ctx context.Context) error {
	if _, err := c.ExecContext(ctx, "PRAGMA busy_timeout = 50"); err != nil {
		return err
	}
	defer c.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout = 5000")
	for range 100 {
		var busy, pages, moved int
		err := c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
		if err != nil || busy == 0 {
			return err
		}
	}
	return fault.New(fault.Unavailable, "the database cannot be compacted because it was in use without interruption; try again")
}

// create creates an empty file with mode 0600 if there is none; SQLite would apply
// the umask. The -wal and -shm files inherit the mode. The file is closed before it
// gets its name: closing any descriptor of a database releases all locks that this
// process holds on it.
func create(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return creationFault(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return creationFault(err)
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return creationFault(err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return creationFault(err)
	}
	return creationFault(durable.SyncDir(filepath.Dir(path)))
}
