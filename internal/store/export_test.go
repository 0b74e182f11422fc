package store

import "time"

// Shrink is what a checkpoint does to an unused database.
var Shrink = shrink

// Unused makes the last transaction end so long ago.
func (d *DB) Unused(since time.Duration) { d.used.Store(time.Now().Add(-since).UnixNano()) }

// PreparedStatements returns the number of prepared statements of idle connections.
func (d *DB) PreparedStatements() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.idle {
		n += len(c.prepared)
	}
	return n
}

// IdleConnections counts the connections that wait for a transaction.
func (d *DB) IdleConnections() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.idle)
}
