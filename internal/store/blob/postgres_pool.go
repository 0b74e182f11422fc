package blob

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// maxConns is the number of connections of one bucket.
	maxConns = 8
	// freshTime is how long a connection without use is trusted to be open. Afterwards it is tried, so that a create is not
	// sent to a connection that a server or a firewall has closed.
	freshTime = 5 * time.Second
)

// pgPool lends connections to one user at a time.
type pgPool struct {
	config *pgconn.Config
	places chan struct{} // one element for each connection in use

	mu     sync.Mutex
	idle   []idleConn // the last used is the last
	closed bool
}

type idleConn struct {
	*pgconn.PgConn
	since time.Time
}

func newPGPool(config *pgconn.Config) *pgPool {
	return &pgPool{config: config, places: make(chan struct{}, maxConns)}
}

// notConnected is the error of an operation that had no connection.
type notConnected struct{ error }

func (e notConnected) Unwrap() error { return e.error }

// use calls f with a connection that nobody else uses. The error is that of f, or notConnected.
func (p *pgPool) use(ctx context.Context, f func(*pgconn.PgConn) error) error {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return notConnected{context.Cause(ctx)}
	}
	c, err := p.connection(ctx)
	if err != nil {
		return notConnected{err}
	}
	defer p.putBack(c)
	return f(c)
}

func (p *pgPool) connection(ctx context.Context) (*pgconn.PgConn, error) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return pgconn.ConnectConfig(ctx, p.config)
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if time.Since(c.since) < freshTime || c.Ping(ctx) == nil {
			return c.PgConn, nil
		}
		end(c.PgConn)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// putBack keeps a connection for its next user, if it is open and in no transaction.
func (p *pgPool) putBack(c *pgconn.PgConn) {
	p.mu.Lock()
	keep := !p.closed && !c.IsClosed() && c.TxStatus() == 'I'
	if keep {
		p.idle = append(p.idle, idleConn{c, time.Now()})
	}
	p.mu.Unlock()
	if !keep {
		end(c)
	}
}

func (p *pgPool) close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		end(c.PgConn)
	}
	return nil
}

// end closes a connection, within a second.
func end(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// query runs a statement and returns its rows. Arguments have the format of text, and columns the binary one.
func query(ctx context.Context, c *pgconn.PgConn, sql string, args ...[]byte) ([][][]byte, error) {
	result := c.ExecParams(ctx, sql, args, nil, nil, []int16{1}).Read()
	return result.Rows, result.Err
}

func text(s string) []byte { return []byte(s) }

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// notNil returns a body that is not NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
