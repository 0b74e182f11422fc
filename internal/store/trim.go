package store

// Trim closes the connections of a database that is not used for now: its next transaction opens
// one, which takes some milliseconds. As in Close, closing the last one moves the log into the
// database. Trim does nothing while something is written.
func Trim(d *DB) error {
	select {
	case d.writer <- struct{}{}:
		defer func() { <-d.writer }()
	default:
		return nil
	}
	k := &d.checkpoints // whose close, in Close, waits for Trim
	k.mu.Lock()
	d.mu.Lock()
	none := len(d.idle) == 0
	d.mu.Unlock()
	if none || k.closed {
		k.mu.Unlock()
		return nil
	}
	k.runs.Add(1)
	k.mu.Unlock()
	defer k.runs.Done()
	closeAll := func() error { return d.closeIdle(0) }
	var err error
	if c := d.changes.Load(); c != nil {
		err = c.emptied(closeAll)
	} else {
		err = closeAll()
	}
	d.end.finish()
	return explain(err)
}
