package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// Tx is a transaction. Each connection prepares a query once and keeps the
// statement, so query texts must be constants: pass values as arguments.
//
// A context that has ended prevents the next statement; a statement that has begun
// is completed. To watch a context, the driver starts a goroutine and
// database/sql another, which takes longer than most statements.
type Tx struct {
	c       *conn
	changed bool // whether a statement may have changed something
}

// ExecContext runs one statement that returns no rows.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(context.WithoutCancel(ctx), args...)
	if err == nil && !t.changed {
		rows, err := result.RowsAffected()
		t.changed = rows > 0 || err != nil
	}
	return result, err
}

// QueryContext runs one query.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	t.changed = t.changed || !strings.HasPrefix(query, "SELECT") // such as UPDATE … RETURNING
	return s.QueryContext(context.WithoutCancel(ctx), args...)
}

func (t *Tx) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return t.c.prepare(ctx, query)
}

// QueryRowContext runs one query and returns its first row.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *Row {
	rows, err := t.QueryContext(ctx, query, args...)
	return &Row{rows, err}
}

// Row is the first row of a query.
type Row struct {
	rows *sql.Rows
	err  error
}

// Scan copies the row's columns, and returns sql.ErrNoRows if there is no row.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	return r.rows.Close()
}

// conn is one connection with its prepared statements. It is used by one
// transaction at a time.
type conn struct {
	*sql.Conn
	prepared map[string]*sql.Stmt
	deferred bool // commits do not wait for the disk (synchronous = NORMAL)
}

func (c *conn) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := c.prepared[query]; s != nil {
		return s, nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err == nil {
		c.prepared[query] = s
	}
	return s, err
}

// Close closes the prepared statements and the connection; a connection with open
// statements would stay open.
func (c *conn) Close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Conn.Close())...)
}

// acquire waits for a free slot and returns a connection.
func (d *DB) acquire(ctx context.Context) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := d.takeIdle(); c != nil {
		return c, nil
	}
	c, err := d.db.Conn(ctx)
	if err != nil {
		<-d.slots
		return nil, err
	}
	return &conn{Conn: c, prepared: make(map[string]*sql.Stmt)}, nil
}

// takeIdle returns the idle connection that was used last, nil if there is none.
func (d *DB) takeIdle() *conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.idle) == 0 {
		return nil
	}
	c := d.idle[len(d.idle)-1]
	d.idle = d.idle[:len(d.idle)-1]
	return c
}

// release returns a connection, which becomes idle. Opening one again takes longer than
// most transactions; those that only concurrent transactions needed are closed by the
// next checkpoint.
func (d *DB) release(c *conn) {
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.idle = append(d.idle, c)
	}
	d.mu.Unlock()
	if closed {
		c.Close()
	}
	<-d.slots
}

// discard closes a connection whose state is unknown.
func (d *DB) discard(c *conn) {
	c.Close()
	<-d.slots
}

// setSync sets whether the connection's commits wait for the disk.
func (c *conn) setSync(ctx context.Context, k kind) error {
	if k == read || c.deferred == (k == writeDeferred) {
		return nil
	}
	mode := "FULL"
	if k == writeDeferred {
		mode = "NORMAL"
	}
	_, err := c.ExecContext(ctx, "PRAGMA synchronous = "+mode)
	c.deferred = k == writeDeferred && err == nil
	return err
}

// kind is the kind of a transaction.
type kind int

const (
	read kind = iota
	write
	writeDeferred // the commit does not wait for the disk
)

// descriptorWait limits the wait for free file descriptors. It equals busy_timeout.
const descriptorWait = 5 * time.Second

// begin acquires a connection and begins a transaction on it. It waits for a
// shortage of file descriptors to end, which usually takes moments.
func (d *DB) begin(ctx context.Context, k kind) (*conn, error) {
	deadline := time.Now().Add(descriptorWait)
	for pause := time.Duration(0); ; pause = min(2*pause+10*time.Millisecond, 200*time.Millisecond) {
		c, err := d.tryBegin(ctx, k)
		if c != nil || !cannotOpen(err) {
			return c, err
		}
		shortage := descriptorShortage()
		if time.Now().After(deadline) || shortage == nil && pause > 0 {
			return nil, errors.Join(shortage, err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (d *DB) tryBegin(ctx context.Context, k kind) (*conn, error) {
	c, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err = c.setSync(ctx, k); err == nil {
		err = c.begin(ctx, k)
	}
	if err != nil {
		d.discard(c) // a cancelled statement may have taken effect
		return nil, err
	}
	return c, nil
}

// begin begins a transaction. Only that of a write waits for other connections.
func (c *conn) begin(ctx context.Context, k kind) error {
	if k == read {
		_, err := (&Tx{c: c}).ExecContext(ctx, "BEGIN")
		return err
	}
	s, err := c.prepare(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		_, err = s.ExecContext(ctx)
	}
	return err
}

// transact runs f in a transaction, and rolls it back if f fails.
func (d *DB) transact(ctx context.Context, k kind, f func(*Tx) error) (err error) {
	defer func() { d.health.recordDamage(err) }()
	if k != read {
		if err := d.checkFile(); err != nil {
			return err
		}
		// SQLite would wait for the other write too, but in sleeps of up to 100 ms.
		select {
		case d.writer <- struct{}{}:
			defer func() { <-d.writer }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c, err := d.begin(ctx, k)
	if err != nil {
		return explain(err)
	}
	tx, done := &Tx{c: c}, false
	defer func() {
		if !done {
			_, err := tx.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			done = err == nil
		}
		d.used.Store(time.Now().UnixNano())
		if done {
			d.release(c)
		} else {
			d.discard(c)
		}
	}()
	var n int64
	if err = f(tx); err == nil && k != read && tx.changed {
		n, err = nextCommit(context.WithoutCancel(ctx), &d.end, c)
	}
	if err != nil {
		return explain(err)
	}
	// A cancelled commit may have taken effect, so it is not cancelled.
	_, err = tx.ExecContext(context.WithoutCancel(ctx), "COMMIT")
	done = err == nil
	if done && n > 0 {
		d.end.commit(n)
	}
	if done && k == write {
		d.end.sync(n)
	}
	if done && k != read {
		d.scheduleCheckpoint()
	}
	return explain(err)
}

// nextCommit returns the number for the commit of a transaction on c, after it has stored it in the database.
func nextCommit(ctx context.Context, w *ender, c *conn) (n int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == 0 {
		if w.last, err = lastCommit(ctx, c); err != nil {
			return 0, err
		}
	}
	n = max(time.Now().UnixNano(), w.last+1)
	tx := &Tx{c: c}
	stored, err := tx.ExecContext(ctx, "UPDATE commits SET n = CASE WHEN n < ? THEN max(n + 1, ?) ELSE ? END", int64(maxCommit), n, n) // another process may have stored a larger one
	if err != nil {
		return 0, err
	}
	if rows, err := stored.RowsAffected(); rows != 0 || err != nil {
		return n, err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO commits VALUES (?)", n)
	return n, err
}

// lastCommit returns the number of the last commit, and creates the table of it if it is missing.
func lastCommit(ctx context.Context, c *conn) (n int64, err error) {
	err = c.QueryRowContext(ctx, selectCommit).Scan(&n)
	if code(err) == sqlite3.SQLITE_ERROR { // there is no such table
		_, err = c.ExecContext(ctx, commitsTable+"; INSERT INTO commits VALUES (0)")
	}
	return validCommit(n), err
}

// ForgetCommits deletes the number of the last commit of a database from elsewhere, such as an import.
func ForgetCommits(ctx context.Context, d *DB) error {
	return d.Update(ctx, func(tx *Tx) error {
		d.end.mu.Lock()
		defer d.end.mu.Unlock()
		if _, err := lastCommit(ctx, tx.c); err != nil { // creates the table
			return err
		}
		d.end.last = 0
		_, err := tx.ExecContext(ctx, "DELETE FROM commits")
		return err
	})
}
