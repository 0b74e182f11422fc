package store

// IdleConnections counts the connections that wait for a transaction.
func (d *DB) IdleConnections() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.idle)
}
