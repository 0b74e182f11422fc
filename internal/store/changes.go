package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"os"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"
)

// Changes finds out which pages of a database commits have changed, from the write-ahead log. Before this process
// empties the log, it reads what is new there. Commits of other processes are noticed by their numbers; then, and if
// the log was emptied in another way, the pages are not known.
type Changes struct {
	db *DB

	mu    sync.Mutex
	end   logPosition
	pages map[uint32]bool // in commits up to end; nil if they are not known
}

// logPosition is the end of a commit in the log.
type logPosition struct {
	head  [walHeader]byte // differs each time that the log is used from its start
	at    int64           // offset after the commit
	sum   checksum        // of what is before
	empty bool            // the next commit is the first one in the use of the file with the number next
	next  uint32
}

// use returns the number of the use of the file, since the file was created.
func (p logPosition) use() uint32 { return binary.BigEndian.Uint32(p.head[12:]) }

// TrackChanges returns the changes of a database from now on. The first ones are not known. A database has one.
func TrackChanges(d *DB) *Changes {
	c := &Changes{db: d}
	d.changes.Store(c)
	return c
}

// Changed is one snapshot of the database with the pages that may differ from an earlier one.
type Changed struct {
	tx    *Tx
	Pages map[uint32]bool // in commits since the earlier snapshot; nil if they are not known
	Size  uint32          // pages of the database
	Bytes uint32          // of a page
}

// View runs f in a read transaction, with the changes since the last call. If f fails, the next call has them again.
func (c *Changes) View(ctx context.Context, f func(Changed) error) error {
	release, err := c.db.writer.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { release() }()
	var taken map[uint32]bool
	err = c.db.View(ctx, func(tx *Tx) error {
		now := Changed{tx: tx}
		var commit int64
		if err := tx.QueryRowContext(ctx, selectCommit).Scan(&commit); err != nil && code(err) != sqlite3.SQLITE_ERROR { // no such table
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size").
			Scan(&now.Size, &now.Bytes); err != nil {
			return err
		}
		if taken, err = c.take(commit); err != nil {
			return err
		}
		release() // what is committed from here on is not in the snapshot
		release = func() {}
		now.Pages = taken
		return f(now)
	})
	if err != nil {
		c.PutBack(taken)
	}
	return err
}

// take returns the pages of commits until the one with a number, nil if they are not known. The caller holds the lock for writers.
func (c *Changes) take(commit int64) (map[uint32]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.observe(); err != nil {
		return nil, err
	}
	if c.db.end.followed(commit) {
		c.pages = nil
	}
	taken := c.pages
	c.pages = map[uint32]bool{}
	return taken, nil
}

// PutBack makes pages of an earlier call of View part of the next one, because they could not be stored; nil makes
// the next ones unknown.
func (c *Changes) PutBack(taken map[uint32]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if taken == nil || c.pages == nil {
		c.pages = nil
		return
	}
	maps.Copy(c.pages, taken)
}

// emptyLog runs f, which may empty the log of a database. If its changes are tracked, the log is read before, and no
// write transaction runs.
func emptyLog(ctx context.Context, d *DB, f func() error) error {
	c := d.changes.Load()
	if c == nil {
		return f()
	}
	release, err := d.writer.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	return c.emptied(f)
}

// emptied runs f, which may empty the log; the caller holds the lock for writers.
func (c *Changes) emptied(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.observe() != nil {
		c.pages = nil
	}
	err := f()
	switch info, missing := os.Stat(c.db.log.path); {
	case os.IsNotExist(missing):
		c.end = logPosition{empty: true}
	case missing == nil && info.Size() == 0 && c.end.at > 0:
		c.end = logPosition{empty: true, next: c.end.use() + 1}
	}
	return err
}

// observe reads what is new in the log. The caller holds c.mu.
func (c *Changes) observe() error {
	f, err := os.Open(c.db.log.path) // closing it releases no lock: SQLite's locks are on the other files
	if os.IsNotExist(err) {
		c.restart(logPosition{empty: true}, c.end.empty)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var head [walHeader]byte
	if n, err := f.ReadAt(head[:], 0); n < walHeader {
		c.restart(logPosition{}, c.end.empty)
		return ignoreEOF(err)
	}
	if c.end.at == 0 || head != c.end.head {
		first := logPosition{head: head, at: walHeader, sum: checksum{order: binary.LittleEndian}}
		if head[3]&1 != 0 {
			first.sum.order = binary.BigEndian
		}
		first.sum.add(head[:24])
		c.restart(first, c.end.empty && c.end.next == first.use())
	}
	c.end, err = c.end.scan(f, c.pages)
	return err
}

// restart continues at the start of the log, unless it is empty as it was. Commits before it are missing unless it follows.
func (c *Changes) restart(at logPosition, follows bool) {
	if !follows {
		c.pages = nil
	}
	if at.at > 0 || !follows {
		c.end = at
	}
}

// Page returns the content of a page.
func (c Changed) Page(ctx context.Context, number uint32) (data []byte, err error) {
	err = c.tx.QueryRowContext(ctx, "SELECT data FROM sqlite_dbpage WHERE pgno = ?", number).Scan(&data)
	return data, err
}

// Each calls f with all pages in order. The data is valid until f returns.
func (c Changed) Each(ctx context.Context, f func(number uint32, data []byte) error) error {
	rows, err := c.tx.QueryContext(ctx, "SELECT pgno, data FROM sqlite_dbpage")
	if err != nil {
		return err
	}
	defer rows.Close()
	var number uint32
	var data []byte
	for rows.Next() {
		if err := rows.Scan(&number, &data); err != nil {
			return err
		}
		if err := f(number, data); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan reads valid frames from now.at on, and returns the position after the last commit among them.
func (p logPosition) scan(f io.ReaderAt, pages map[uint32]bool) (logPosition, error) {
	size := int64(binary.BigEndian.Uint32(p.head[8:]))
	if size < 512 || size > 65536 {
		return p, nil
	}
	frame := make([]byte, frameHeader+size)
	in := io.NewSectionReader(f, p.at, 1<<62)
	var open []uint32 // pages of a transaction without its commit
	for at, sum := p.at, p.sum; ; {
		if _, err := io.ReadFull(in, frame); err != nil {
			return p, ignoreEOF(err)
		}
		sum.add(frame[:8])
		sum.add(frame[frameHeader:])
		if !bytes.Equal(frame[8:16], p.head[16:24]) || !sum.equal(frame[16:]) {
			return p, nil
		}
		at += int64(len(frame))
		if pages != nil {
			open = append(open, binary.BigEndian.Uint32(frame))
		}
		if binary.BigEndian.Uint32(frame[4:]) != 0 {
			p.at, p.sum = at, sum
			for _, n := range open {
				pages[n] = true
			}
			open = open[:0]
		}
	}
}
