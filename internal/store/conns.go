package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"
)

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

// writerLock is a semaphore of one. SQLite lets writers wait for each other too, but in sleeps of up to 100 ms.
type writerLock chan struct{}

func (w writerLock) lock(ctx context.Context) (release func(), err error) {
	select {
	case w <- struct{}{}:
		return func() { <-w }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// kind is the kind of a transaction.
type kind int

const (
	read kind = iota
	write
	writeDeferred // the commit does not wait for the disk
)

// conns are the connections to a database.
type conns struct {
	db    *sql.DB
	slots chan struct{} // semaphore: one element for each connection in use

	mu     sync.Mutex
	idle   []*conn // reused by the next transactions, the last one first
	closed bool
}

// acquire waits for a free slot and returns a connection.
func (p *conns) acquire(ctx context.Context) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := p.takeIdle(); c != nil {
		return c, nil
	}
	c, err := p.db.Conn(ctx)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return &conn{Conn: c, prepared: make(map[string]*sql.Stmt)}, nil
}

// takeIdle returns the idle connection that was used last, nil if there is none.
func (p *conns) takeIdle() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

// release returns a connection, which becomes idle. Opening one again takes longer than
// most transactions; those that only concurrent transactions needed are closed by the
// next checkpoint.
func (p *conns) release(c *conn) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if closed {
		c.Close()
	}
	<-p.slots
}

// discard closes a connection whose state is unknown.
func (p *conns) discard(c *conn) {
	c.Close()
	<-p.slots
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

// descriptorWait limits the wait for free file descriptors. It equals busy_timeout.
const descriptorWait = 5 * time.Second

// begin acquires a connection and begins a transaction on it. It waits for a
// shortage of file descriptors to end, which usually takes moments.
func (p *conns) begin(ctx context.Context, k kind) (*conn, error) {
	deadline := time.Now().Add(descriptorWait)
	for pause := time.Duration(0); ; pause = min(2*pause+10*time.Millisecond, 200*time.Millisecond) {
		c, err := p.tryBegin(ctx, k)
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

func (p *conns) tryBegin(ctx context.Context, k kind) (*conn, error) {
	c, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err = c.setSync(ctx, k); err == nil {
		err = c.begin(ctx, k)
	}
	if err != nil {
		p.discard(c) // a cancelled statement may have taken effect
		return nil, err
	}
	return c, nil
}

// begin begins a transaction. Only that of a write waits for other connections.
func (c *conn) begin(ctx context.Context, k kind) error {
	query := "BEGIN IMMEDIATE"
	if k == read { // which waits for nothing: see Tx
		query, ctx = "BEGIN", context.WithoutCancel(ctx)
	}
	s, err := c.prepare(ctx, query)
	if err == nil {
		_, err = s.ExecContext(ctx)
	}
	return err
}

// closeIdle closes all but the n idle connections that were used last.
func (p *conns) closeIdle(n int) error {
	p.mu.Lock()
	surplus := p.idle[:max(0, len(p.idle)-n)]
	p.idle = slices.Clone(p.idle[len(surplus):])
	p.mu.Unlock()
	var errs []error
	for _, c := range surplus {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// close closes the idle connections, and each other one when it is released. It reports whether they
// were closed before.
func (p *conns) close() (again bool, err error) {
	p.mu.Lock()
	again, p.closed = p.closed, true
	p.mu.Unlock()
	if again {
		return true, nil
	}
	return false, errors.Join(p.closeIdle(0), p.db.Close())
}
