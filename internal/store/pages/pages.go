// Package pages keeps a copy of a database as LTX files: https://github.com/superfly/ltx.
//
// A snapshot has all pages; each other file has those that changed since the file before. A transaction of
// the copy, numbered by a TXID, may contain several commits of the database. A checksum over all pages follows from
// file to file, so that a file that is missing, altered or of another database is found.
package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/superfly/ltx"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// sums are the checksums of pages, by their number minus 1, and those of all of them.
type sums struct {
	each []ltx.Checksum
	all  ltx.Checksum
}

func (s *sums) set(number uint32, sum ltx.Checksum) {
	for uint32(len(s.each)) < number {
		s.each = append(s.each, 0)
	}
	s.all ^= s.each[number-1] ^ sum
	s.each[number-1] = sum
}

func (s *sums) of(number uint32) ltx.Checksum {
	if number > uint32(len(s.each)) {
		return 0
	}
	return s.each[number-1]
}

// truncate leaves the first n pages.
func (s *sums) truncate(n uint32) {
	for i := uint32(len(s.each)); i > n; i-- {
		s.set(i, 0)
	}
	s.each = s.each[:min(int(n), len(s.each))]
}

// total is the checksum of the database.
func (s *sums) total() ltx.Checksum { return ltx.ChecksumFlag | s.all }

// Writer writes the files of one database. It is for one goroutine at a time.
type Writer struct {
	changes *store.Changes
	txid    ltx.TXID // of the last file that was kept; 0 if there is none
	sums    sums
}

// NewWriter returns the Writer of an open database. A database has one.
func NewWriter(db *store.DB) *Writer { return &Writer{changes: store.TrackChanges(db)} }

// Continue reads the whole database and reports whether it is what the files of a copy contain, of which pos is the
// position. If so, the next file has what changes from now on; otherwise it is a snapshot.
func (w *Writer) Continue(ctx context.Context, pos ltx.Pos) (same bool, err error) {
	now := &Writer{txid: pos.TXID}
	err = w.changes.View(ctx, func(c store.Changed) error {
		return c.Each(ctx, func(number uint32, data []byte) error {
			if number != ltx.LockPgno(c.Bytes) {
				now.sums.set(number, ltx.ChecksumPage(number, data))
			}
			return ctx.Err()
		})
	})
	if err != nil {
		return false, err
	}
	if same = now.sums.total() == pos.PostApplyChecksum; !same {
		w.changes.PutBack(nil)
		now.sums = sums{}
	}
	w.txid, w.sums = now.txid, now.sums
	return same, nil
}

// File is one file that was written. Keep or Drop is called for it, before another one is written.
type File struct {
	ltx.Pos            // after it
	Snapshot bool      // it has all pages
	Time     time.Time // of the last commit in it, to the millisecond, or later

	w     *Writer
	after sums
	pages map[uint32]bool
}

// Write writes to out what has changed since the last file that was kept: everything, if there is none or if snapshot is
// set. It returns nil, and writes nothing, if nothing has changed. A snapshot is a transaction of its own.
func (w *Writer) Write(ctx context.Context, out io.Writer, snapshot bool) (*File, error) {
	f := &File{w: w, Snapshot: snapshot || w.txid == 0 || len(w.sums.each) == 0, Time: time.Now().Truncate(time.Millisecond)}
	f.TXID = w.txid + 1
	changed := false
	err := w.changes.View(ctx, func(c store.Changed) (err error) {
		f.pages = c.Pages
		if !f.Snapshot && c.Pages != nil && len(c.Pages) == 0 && c.Size == uint32(len(w.sums.each)) {
			return nil
		}
		changed, err = f.encode(ctx, out, c)
		return err
	})
	if err != nil || !changed {
		return nil, err
	}
	f.PostApplyChecksum = f.after.total()
	return f, nil
}

// Keep makes the file the last one: the next one has what changes after it.
func (f *File) Keep() { f.w.txid, f.w.sums = f.TXID, f.after }

// Drop makes what is in the file part of the next one.
func (f *File) Drop() { f.w.changes.PutBack(f.pages) }

// encode writes the file, and reports false if no page has changed: then it has written nothing.
func (f *File) encode(ctx context.Context, out io.Writer, c store.Changed) (bool, error) {
	enc, err := ltx.NewEncoder(out)
	if err != nil {
		return false, err
	}
	header := ltx.Header{
		Version:   ltx.Version,
		PageSize:  c.Bytes,
		Commit:    c.Size,
		MinTXID:   f.TXID,
		MaxTXID:   f.TXID,
		Timestamp: f.Time.UnixMilli(),
	}
	if f.Snapshot {
		header.MinTXID = 1
	} else {
		header.PreApplyChecksum = f.w.sums.total()
	}
	f.after = sums{slices.Clone(f.w.sums.each), f.w.sums.all}
	begun := false
	page := func(number uint32, data []byte) error {
		sum := ltx.ChecksumPage(number, data)
		if number == ltx.LockPgno(c.Bytes) || !f.Snapshot && sum == f.after.of(number) {
			return ctx.Err()
		}
		if !begun {
			if err := enc.EncodeHeader(header); err != nil {
				return err
			}
		}
		begun = true
		f.after.set(number, sum)
		return errors.Join(ctx.Err(), enc.EncodePage(ltx.PageHeader{Pgno: number}, data))
	}
	f.after.truncate(c.Size)
	if f.Snapshot || c.Pages == nil {
		err = c.Each(ctx, page)
	} else {
		err = some(ctx, c, page)
	}
	if err != nil || !begun {
		return false, errors.Join(err, enc.Cleanup())
	}
	enc.SetPostApplyChecksum(f.after.total())
	return true, enc.Close()
}

// some calls f with the changed pages in order.
func some(ctx context.Context, c store.Changed, f func(uint32, []byte) error) error {
	var numbers []uint32
	for n := range c.Pages {
		if n <= c.Size {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		data, err := c.Page(ctx, n)
		if err == nil {
			err = f(n, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Copy is a database file that is made of the files of a Writer, a snapshot first.
type Copy struct {
	f    *os.File
	pos  ltx.Pos
	sums sums
}

// NewCopy returns the copy in a new file, which the caller closes.
func NewCopy(f *os.File) *Copy { return &Copy{f: f} }

// Pos returns the position after the last file.
func (c *Copy) Pos() ltx.Pos { return c.pos }

// Apply adds the changes of the next file, and checks that it follows. After an error the copy is not usable.
func (c *Copy) Apply(r io.Reader) error {
	dec := ltx.NewDecoder(r)
	if err := dec.DecodeHeader(); err != nil {
		return err
	}
	h := dec.Header()
	switch {
	case h.IsSnapshot():
		c.sums = sums{}
	case h.PreApplyPos() != c.pos:
		return fmt.Errorf("the file follows transaction %s, not %s", h.PreApplyPos(), c.pos)
	}
	data := make([]byte, h.PageSize)
	for {
		var page ltx.PageHeader
		err := dec.DecodePage(&page, data)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if _, err := c.f.WriteAt(data, int64(page.Pgno-1)*int64(h.PageSize)); err != nil {
			return err
		}
		c.sums.set(page.Pgno, ltx.ChecksumPage(page.Pgno, data))
	}
	if err := dec.Close(); err != nil {
		return err
	}
	c.sums.truncate(h.Commit)
	if c.pos = dec.PostApplyPos(); c.pos.PostApplyChecksum != c.sums.total() {
		return errors.New("the pages are not those of the database that was copied")
	}
	return c.f.Truncate(int64(h.Commit) * int64(h.PageSize))
}
