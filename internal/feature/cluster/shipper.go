package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
	"github.com/sandpiper-mcp/sandpiper/internal/store/pages"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

const (
	// A snapshot follows when so many entries, or so many bytes, would have to be read for the current state; the bytes
	// are at least snapshotBytes, and snapshotTimes those of the last snapshot.
	snapshotEntries = 500
	snapshotBytes   = 4 << 20
	snapshotTimes   = 4
)

// shipper writes the log of one tenant. It is for one goroutine at a time.
type shipper struct {
	id     tenant.ID
	node   string
	log    *bucketlog.Log
	shared *bucketStore

	loaded bool
	last   uint64 // number of the last entry; 0 if there is none
	head   head   // of it
	size   int64  // of the last snapshot
	known  known

	db     *store.DB // of which writer is
	writer *pages.Writer
	differ bool // the database is not what the log has: a snapshot follows
}

// errForeign is the error of a log that another data directory continues.
func errForeign(id tenant.ID, node string) error {
	return fault.New(fault.Denied, "another data directory (%.40s) writes the copy of tenant %q: this one has stopped", node, id).
		WithHint("let only one of them run, or give each a bucket, or a prefix in it, of its own")
}

// original is what a log is the copy of: a home.Original, or what all tenants share.
type original interface {
	Database(context.Context) (*store.DB, error) // nil if there is none
	Files(ctx context.Context, to workspace.Sink, same func(path string, s workspace.Stamp) bool) (workspace.Archived, error)
}

// sync writes an entry if the original has changed.
func (s *shipper) sync(ctx context.Context, o original) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	db, err := o.Database(ctx)
	if err != nil {
		return err
	}
	if db != nil && s.db != db {
		if err := s.attach(ctx, db); err != nil {
			return err
		}
	}
	next := s.next()
	body, err := s.shared.spool()
	if err != nil {
		return err
	}
	defer body.Close()
	var f *pages.File
	if db != nil { // before the files: those that it mentions are there, unless they were deleted since
		if f, err = s.writer.Write(ctx, body, next.Base == s.last+1); err != nil {
			return err
		}
	}
	put, collected, err := s.collect(ctx, o, &next)
	if err != nil {
		if f != nil {
			f.Drop()
		}
		return err
	}
	if f == nil && !put {
		s.known = collected
		return nil
	}
	if f != nil {
		next.Pages, next.TXID, next.Checksum = true, f.TXID, f.PostApplyChecksum
	}
	if err := s.append(ctx, next, body, f); err != nil {
		return err
	}
	s.known = collected
	return nil
}

// next returns the head of the next entry, without what is in it.
func (s *shipper) next() head {
	n := head{
		Format:   format,
		Tenant:   s.id,
		Node:     s.node,
		Time:     later(time.Now().UTC(), s.head.Time),
		Base:     s.head.Base,
		Since:    s.head.Since,
		TXID:     s.head.TXID,
		Checksum: s.head.Checksum,
	}
	if s.differ || s.last == 0 || s.last-s.head.Base >= snapshotEntries || s.head.Since > max(snapshotBytes, snapshotTimes*s.size) ||
		s.head.Node != s.node {
		n.Base, n.Since = s.last+1, 0
	}
	return n
}

// later returns the later time: the times of entries do not go back, as clocks may.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// collect stores the files, and reports whether they belong in the entry.
func (s *shipper) collect(ctx context.Context, o original, next *head) (bool, known, error) {
	c := newCollection(ctx, s.log, s.shared.pol, s.known)
	_, err := o.Files(ctx, c, c.same)
	if err != nil {
		c.abandon()
		return false, known{}, err
	}
	if err := c.finish(); err != nil {
		return false, known{}, err
	}
	next.Put, next.Gone = c.changes()
	changed := len(next.Put)+len(next.Gone) > 0
	if next.Base == s.last+1 {
		next.Put, next.Gone = c.files, nil
		changed = true
	}
	return changed, known{c.files, c.stamps}, nil
}

// append writes the entry, and makes it the last one.
func (s *shipper) append(ctx context.Context, h head, body *os.File, f *pages.File) error {
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		err = s.log.Append(ctx, s.last+1, h, body)
	}
	if err != nil {
		if f != nil {
			f.Drop()
		}
		if errors.Is(err, bucketlog.ErrTaken) {
			return s.overtaken(ctx, err)
		}
		s.loaded = false // the entry may exist
		return err
	}
	if f != nil {
		f.Keep()
	}
	s.last++
	if h.Base == s.last {
		s.size = size
	} else {
		h.Since += size
	}
	h.Put, h.Gone = nil, nil
	s.head, s.differ = h, false
	return nil
}

// overtaken returns the error of an entry that exists. Another process of this data directory may have written it: then the
// next sync continues after it.
func (s *shipper) overtaken(ctx context.Context, taken error) error {
	s.loaded = false
	e, err := s.log.Open(ctx, s.last+1)
	if err != nil {
		return errors.Join(taken, err)
	}
	defer e.Close()
	var h head
	if err := e.Head(&h); err != nil {
		return err
	}
	if h.Node != s.node {
		return errForeign(s.id, h.Node)
	}
	return taken
}

// load reads what the log has, unless it is known.
func (s *shipper) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	st, err := s.shared.latest(ctx, s.log)
	if err != nil {
		return err
	}
	s.last, s.head, s.size, s.db = st.last, st.head, st.size, nil
	s.known = known{files: st.files}
	s.loaded = true
	return nil
}

// attach begins to track the changes of a database that was opened. If it is not what the log has, the next entry is a snapshot.
func (s *shipper) attach(ctx context.Context, db *store.DB) error {
	w := pages.NewWriter(db)
	same, err := w.Continue(ctx, s.head.pos())
	if err != nil {
		return err
	}
	s.db, s.writer, s.differ = db, w, !same
	return nil
}

// state is a log as of an entry.
type state struct {
	last  uint64
	head  head
	size  int64 // of the last snapshot
	files map[string]file
}

// latest returns the state as of the last entry.
func (b *bucketStore) latest(ctx context.Context, log *bucketlog.Log) (st state, err error) {
	var sizes = map[uint64]int64{}
	for n, err := range log.Numbers(ctx, 0) {
		if err != nil {
			return st, err
		}
		st.last = n.N
		sizes[n.N] = n.Size
	}
	st.files = map[string]file{}
	if st.last == 0 {
		return st, nil
	}
	if st.head, err = readHead(ctx, log, st.last); err != nil {
		return st, err
	}
	st.size = sizes[st.head.Base]
	for n := st.head.Base; n <= st.last; n++ {
		h, err := readHead(ctx, log, n)
		if err != nil {
			return st, err
		}
		h.apply(st.files)
	}
	st.head.Put, st.head.Gone = nil, nil
	return st, nil
}

// readHead returns the head of an entry.
func readHead(ctx context.Context, log *bucketlog.Log, n uint64) (h head, err error) {
	e, err := log.Open(ctx, n)
	if err != nil {
		return h, err
	}
	defer e.Close()
	if err := e.Head(&h); err != nil {
		return h, fmt.Errorf("entry %d: %w", n, err)
	}
	if h.Format != format {
		return h, fault.New(fault.Unavailable, "entry %d of the copy has the format %d, which this version does not know", n, h.Format).
			WithHint("update Sandpiper")
	}
	return h, nil
}
