// Package store opens a tenant's database: one SQLite file, the single truth
// for everything of that tenant that is not a workspace file.
//
// A migration is one numbered step of the schema; the schema of a file is the
// number of the last step it took. What an Update returned nil for is on disk:
// it survives kill -9 and a loss of power; UpdateLater promises a little less,
// for much less time. A DB is safe for concurrent use, and
// any number of processes may open one file.
//
// The package knows no table. The rooms that own tables write their migrations
// and their SQL; whoever opens the file puts the list together.
package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"modernc.org/sqlite"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// settings hold for every connection. The journal's mode is kept in the file
// and set once, by migrate.
const settings = "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=synchronous(FULL)&_dqs=0"

// A write waits for a write, so more connections would serve readers only.
const connections = 4

// DB is an open database.
type DB struct {
	db          *sql.DB
	path        string
	steps       int // of the schema
	log         syncer
	checkpoints checkpointer
	health      health
	taken       chan struct{} // one for each connection at work

	mu     sync.Mutex
	idle   *conn // kept for the next transaction, if there is one
	closed bool
}

// Open opens the database in the file at path, makes it if there is none, and
// takes the migrations it lacks. The directory must exist. A file whose schema
// is newer than the last migration is refused.
func Open(ctx context.Context, path string, migrations []Migration) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the working directory is gone")
	}
	if err := errors.Join(missingFile(path), checkLog(path+"-wal")); err != nil {
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
		return nil, fault.Wrap(fault.Internal, err, "the database's name cannot be used")
	}
	db := &DB{db: sql.OpenDB(connector), path: path, steps: len(migrations), health: health{file: file}, taken: make(chan struct{}, connections)}
	db.log.path, db.log.move = path+"-wal", db.moveLog
	db.db.SetMaxIdleConns(-1) // the one that is kept keeps its statements too
	if err := db.migrate(ctx, migrations); err != nil {
		db.Close()
		return nil, explain(err)
	}
	return db, nil
}

// Close closes the database. It is idempotent.
func (d *DB) Close() error {
	d.checkpoints.close()
	err := d.log.close() // which may need the connection that is kept
	d.mu.Lock()
	c := d.idle
	d.idle, d.closed = nil, true
	d.mu.Unlock()
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	return explain(errors.Join(err, d.db.Close()))
}

// Update runs f in a transaction that may write. Only one runs at a time, in
// all processes together; nobody sees any of it before all of it is on disk.
// An error of f undoes it.
func (d *DB) Update(ctx context.Context, f func(*Tx) error) error {
	return d.transact(ctx, writes, f)
}

// UpdateLater is Update for what is written often: what it returned nil for
// survives the end of this process in every way, and a loss of power only after
// another twentieth of a second. It does not wait for the disk, unless that could
// not be written just before.
func (d *DB) UpdateLater(ctx context.Context, f func(*Tx) error) error {
	if d.log.failed() != nil {
		return d.transact(ctx, writes, f)
	}
	err := d.transact(ctx, writesLater, f)
	if err == nil {
		d.log.soon()
	}
	return err
}

// View runs f in a transaction that reads one state of the database, whatever
// others write meanwhile.
func (d *DB) View(ctx context.Context, f func(*Tx) error) error {
	return d.transact(ctx, reads, f)
}

// Compact writes the file anew, so that nothing which was deleted is left in it or
// in its log. Others can read meanwhile, but not write. It fails if others read
// without a break for some seconds.
func (d *DB) Compact(ctx context.Context) error {
	c, err := d.take(ctx)
	if err != nil {
		return explain(err)
	}
	defer d.give(c)
	if _, err := c.ExecContext(ctx, "VACUUM"); err != nil {
		return explain(err)
	}
	return explain(c.emptyLog(ctx))
}

// moveLog moves the log into the file, which is then on disk. It waits for nobody,
// and fails while others read what is older.
func (d *DB) moveLog() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.give(c)
	var busy, pages, moved int
	if err := c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &moved); err != nil {
		return err
	}
	if busy != 0 || pages != moved {
		return errors.New("the log is in use")
	}
	return nil
}

// emptyLog moves the log into the file and leaves nothing of it. As long as SQLite
// waits for readers here nobody can write, so it waits for moments only, again and
// again.
func (c *conn) emptyLog(ctx context.Context) error {
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
	return fault.New(fault.Unavailable, "the database was in use for too long to be written anew; try again")
}

// create makes an empty file that only its owner can read, before SQLite would
// make one by the umask; its companions take over the mode. The file is closed
// before it gets its name: closing any descriptor of a database drops the locks
// that this process holds on it.
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
	return creationFault(durable.Dir(filepath.Dir(path)))
}

// location is an absolute path as SQLite's URI.
func location(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
