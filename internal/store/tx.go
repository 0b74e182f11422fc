package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Tx is a transaction. A query is prepared once for each connection and kept, so
// its text must be one of a fixed few: values are arguments.
type Tx struct{ c *conn }

// ExecContext runs one statement that returns no rows.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// QueryContext runs one query.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext runs one query for its first row.
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

// conn is one connection with the statements that were prepared on it. One
// transaction at a time has it.
type conn struct {
	*sql.Conn
	prepared map[string]*sql.Stmt
	later    bool // its commits do not wait for the disk
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

// Close closes the connection, which stays open as long as it has a statement.
func (c *conn) Close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Conn.Close())...)
}

// take waits for one of the few connections.
func (d *DB) take(ctx context.Context) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case d.taken <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	kept := d.idle
	d.idle = nil
	d.mu.Unlock()
	if kept != nil {
		return kept, nil
	}
	c, err := d.db.Conn(ctx)
	if err != nil {
		<-d.taken
		return nil, err
	}
	return &conn{Conn: c, prepared: make(map[string]*sql.Stmt)}, nil
}

// give takes a connection back, to keep or, if there is one already, to close.
func (d *DB) give(c *conn) {
	d.mu.Lock()
	keep := d.idle == nil && !d.closed
	if keep {
		d.idle = c
	}
	d.mu.Unlock()
	if !keep {
		c.Close()
	}
	<-d.taken
}

// drop closes a connection whose state is unknown.
func (d *DB) drop(c *conn) {
	c.Close()
	<-d.taken
}

// wait makes the connection's commits wait for the disk, or not.
func (c *conn) wait(ctx context.Context, k kind) error {
	if k == reads || c.later == (k == writesLater) {
		return nil
	}
	mode := "FULL"
	if k == writesLater {
		mode = "NORMAL"
	}
	_, err := c.ExecContext(ctx, "PRAGMA synchronous = "+mode)
	c.later = k == writesLater && err == nil
	return err
}

// kind of transaction.
type kind int

const (
	reads kind = iota
	writes
	writesLater
)

// patience is how long a transaction waits for descriptors, as for a lock.
const patience = 5 * time.Second

// begin takes a connection and begins a transaction on it. A shortage of
// descriptors is mostly over in a moment, and is waited for.
func (d *DB) begin(ctx context.Context, k kind) (*conn, error) {
	giveUp := time.Now().Add(patience)
	for pause := time.Duration(0); ; pause = min(2*pause+10*time.Millisecond, 200*time.Millisecond) {
		c, err := d.tryBegin(ctx, k)
		if c != nil || !cannotOpen(err) {
			return c, err
		}
		short := shortage()
		if time.Now().After(giveUp) || short == nil && pause > 0 {
			return nil, errors.Join(short, err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (d *DB) tryBegin(ctx context.Context, k kind) (*conn, error) {
	c, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	begin := "BEGIN IMMEDIATE"
	if k == reads {
		begin = "BEGIN"
	}
	if err = c.wait(ctx, k); err == nil {
		_, err = (&Tx{c}).ExecContext(ctx, begin)
	}
	if err != nil {
		d.drop(c) // a statement that was cancelled may have taken effect
		return nil, err
	}
	return c, nil
}

// transact runs f in a transaction, and undoes it if f fails.
func (d *DB) transact(ctx context.Context, k kind, f func(*Tx) error) (err error) {
	defer func() { d.health.note(err) }()
	if k != reads {
		if err := d.here(); err != nil {
			return err
		}
	}
	c, err := d.begin(ctx, k)
	if err != nil {
		return explain(err)
	}
	tx, done := &Tx{c}, false
	defer func() {
		if !done {
			_, err := tx.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			done = err == nil
		}
		if done {
			d.give(c)
		} else {
			d.drop(c)
		}
	}()
	if err := f(tx); err != nil {
		return explain(err)
	}
	// A commit that was cancelled may have taken effect.
	_, err = tx.ExecContext(context.WithoutCancel(ctx), "COMMIT")
	done = err == nil
	if done && k != reads {
		d.checkpointSoon()
	}
	return explain(err)
}
