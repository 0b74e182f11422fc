package cluster

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
	"github.com/sandpiper-mcp/sandpiper/internal/store/pages"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// numbers returns the numbers of the entries of a log in order. An error reports a gap.
func numbers(ctx context.Context, log *bucketlog.Log) (all []bucketlog.Number, err error) {
	for n, err := range log.Numbers(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if k := len(all); k > 0 && all[k-1].N+1 != n.N {
			return nil, fault.New(fault.Unavailable, "entries %d to %d of the copy are missing", all[k-1].N+1, n.N-1).
				WithHint("restore a time before they were written, with --at")
		}
		all = append(all, n)
	}
	return all, nil
}

// before returns the number of the last entry until a time, the last one if the time is zero.
func before(ctx context.Context, log *bucketlog.Log, at time.Time) (uint64, error) {
	all, err := numbers(ctx, log)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fault.New(fault.NotFound, "the bucket has no copy of the tenant")
	}
	if at.IsZero() {
		return all[len(all)-1].N, nil
	}
	i, found := slices.BinarySearchFunc(all, at, func(n bucketlog.Number, at time.Time) int {
		h, wrong := readHead(ctx, log, n.N)
		if wrong != nil {
			err = wrong
		}
		if h.Time.After(at) {
			return 1
		}
		return -1
	})
	if err != nil {
		return 0, err
	}
	if _ = found; i == 0 {
		h, err := readHead(ctx, log, all[0].N)
		if err != nil {
			return 0, err
		}
		return 0, fault.New(fault.NotFound, "the copy begins at %s", h.Time.Format(time.RFC3339))
	}
	return all[i-1].N, nil
}

// rebuild returns the files as of an entry, and writes the database to db.
func rebuild(ctx context.Context, log *bucketlog.Log, n uint64, db *os.File) (st state, err error) {
	if st.head, err = readHead(ctx, log, n); err != nil {
		return st, err
	}
	st.last, st.files = n, map[string]file{}
	c := pages.NewCopy(db)
	for i := st.head.Base; i <= n; i++ {
		if err := replay(ctx, log, i, c, st.files); err != nil {
			return st, fault.Wrap(fault.KindOf(err), err, "entry %d of the copy: %s", i, cmpMessage(err))
		}
	}
	if c.Pos() != st.head.pos() {
		return st, fault.New(fault.Unavailable, "entry %d of the copy is of another database", n)
	}
	return st, nil
}

func cmpMessage(err error) string {
	if m := fault.Message(err); m != "" {
		return m
	}
	return err.Error()
}

// replay applies an entry.
func replay(ctx context.Context, log *bucketlog.Log, n uint64, c *pages.Copy, files map[string]file) error {
	e, err := log.Open(ctx, n)
	if err != nil {
		return err
	}
	defer e.Close()
	var h head
	if err := e.Head(&h); err != nil {
		return err
	}
	h.apply(files)
	if !h.Pages {
		return nil
	}
	return c.Apply(e)
}

// entries calls add for what a backup has of a tenant as of an entry; see home.Directory.Restore.
func entries(ctx context.Context, log *bucketlog.Log, n uint64, add func(*tar.Header, io.Reader) error) error {
	db, err := os.CreateTemp("", "sandpiper-restore-*")
	if err != nil {
		return err
	}
	defer os.Remove(db.Name())
	defer db.Close()
	st, err := rebuild(ctx, log, n, db)
	if err != nil {
		return err
	}
	if st.head.Deleted {
		return fault.New(fault.NotFound, "it was deleted at %s", st.head.Time.Format(time.RFC3339))
	}
	id := st.head.Tenant
	private, files := divide(st.files)
	for _, path := range private {
		if err := addFile(ctx, log, id, path, st.files[path], add); err != nil {
			return err
		}
	}
	info, err := db.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		if err := add(home.DatabaseEntry(id, info.Size()), io.NewSectionReader(db, 0, info.Size())); err != nil {
			return err
		}
	}
	if err := add(home.WorkspaceEntry(id), nil); err != nil {
		return err
	}
	for _, path := range files {
		if err := addFile(ctx, log, id, path, st.files[path], add); err != nil {
			return err
		}
	}
	return nil
}

// divide returns the paths of private files, and those of the workspace, each after its directory, and further names last.
func divide(all map[string]file) (private, files []string) {
	var names []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		switch {
		case strings.HasPrefix(path, "private/"):
			private = append(private, path)
		case all[path].Type == tar.TypeLink:
			names = append(names, path)
		default:
			files = append(files, path)
		}
	}
	return private, append(files, names...)
}

func addFile(ctx context.Context, log *bucketlog.Log, id tenant.ID, path string, f file, add func(*tar.Header, io.Reader) error) error {
	h, err := home.EntryOf(id, f.header(path))
	if err != nil {
		return err
	}
	return add(h, &contents{ctx: ctx, log: log, left: f.Contents})
}

// contents reads the contents of a file.
type contents struct {
	ctx  context.Context
	log  *bucketlog.Log
	left []string
	now  []byte
}

// Read implements io.Reader.
func (c *contents) Read(p []byte) (n int, err error) {
	for len(c.now) == 0 {
		if len(c.left) == 0 {
			return 0, io.EOF
		}
		if c.now, err = c.log.Get(c.ctx, c.left[0]); err != nil {
			return 0, err
		}
		c.left = c.left[1:]
	}
	n = copy(p, c.now)
	c.now = c.now[n:]
	return n, nil
}

// checked is the result of reading back the copy of a tenant.
type checked struct {
	Tenant   string    `json:"tenant"` // "" for what all tenants share
	Entries  int       `json:"entries"`
	Contents int       `json:"contents"`
	Bytes    int64     `json:"bytes"`
	Oldest   time.Time `json:"oldest"` // the oldest and the newest time that can be restored
	Newest   time.Time `json:"newest"`
	Deleted  bool      `json:"deleted,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// describe returns what is known of a copy without reading it.
func describe(ctx context.Context, log *bucketlog.Log) (c checked, all []bucketlog.Number, err error) {
	all, err = numbers(ctx, log)
	if err != nil || len(all) == 0 {
		return c, nil, err
	}
	for _, n := range all {
		c.Bytes += n.Size
	}
	first, err := readHead(ctx, log, all[0].N)
	if err != nil {
		return c, nil, err
	}
	last, err := readHead(ctx, log, all[len(all)-1].N)
	c.Tenant, c.Entries, c.Oldest, c.Newest, c.Deleted = last.Tenant.String(), len(all), first.Time, last.Time, last.Deleted
	return c, all, err
}

// check reads every entry of a log and every content that it names, and verifies them.
func check(ctx context.Context, log *bucketlog.Log) (c checked, err error) {
	c, all, err := describe(ctx, log)
	if err != nil {
		return c, err
	}
	read := map[string]bool{}
	var db *os.File
	defer func() {
		if db != nil {
			db.Close()
		}
	}()
	var pos *pages.Copy
	for _, n := range all {
		h, err := readHead(ctx, log, n.N)
		if err != nil {
			return c, err
		}
		if pos == nil || h.Base == n.N { // each snapshot begins a copy of its own
			if db != nil {
				db.Close()
			}
			if db, err = os.CreateTemp("", "sandpiper-check-*"); err != nil {
				return c, err
			}
			os.Remove(db.Name())
			pos = pages.NewCopy(db)
		}
		if err := replay(ctx, log, n.N, pos, map[string]file{}); err != nil {
			return c, fmt.Errorf("entry %d: %w", n.N, err)
		}
		for path, f := range h.Put {
			if err := readContents(ctx, log, f, read); err != nil {
				return c, errors.Join(fmt.Errorf("entry %d, %.80q: %w", n.N, path, err))
			}
		}
	}
	c.Contents = len(read)
	return c, nil
}

func readContents(ctx context.Context, log *bucketlog.Log, f file, read map[string]bool) error {
	for _, name := range f.Contents {
		if read[name] {
			continue
		}
		if _, err := log.Get(ctx, name); err != nil {
			return err
		}
		read[name] = true
	}
	return nil
}
