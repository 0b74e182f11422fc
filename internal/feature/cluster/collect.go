package cluster

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"time"

	"github.com/restic/chunker"
	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
)

const (
	minContent = 256 << 10 // bytes of a content of a larger file
	maxContent = 4 << 20
	uploads    = 8 // at once, of one tenant
	// settled is how long a file is unchanged before its stamp tells that it still is: file systems count time in ticks.
	settled = 50 * time.Millisecond
)

// known is what a shipper knows of the files that are stored.
type known struct {
	files  map[string]file            // by path
	stamps map[string]workspace.Stamp // of those that were read
}

// collection collects the files of a tenant: it is the Sink for those that have changed. Contents are stored at once.
type collection struct {
	log    *bucketlog.Log
	pol    chunker.Pol
	before known
	begun  time.Time

	files  map[string]file
	stamps map[string]workspace.Stamp
	seen   map[string]workspace.Stamp // of files that have changed
	stored map[string]bool            // contents of files before

	ctx  context.Context
	put  *errgroup.Group
	path string // of the file that is written
	in   *io.PipeWriter
	done chan error
}

func newCollection(ctx context.Context, log *bucketlog.Log, pol chunker.Pol, before known) *collection {
	c := &collection{
		log:    log,
		pol:    pol,
		before: before,
		begun:  time.Now(),
		files:  map[string]file{},
		stamps: map[string]workspace.Stamp{},
		seen:   map[string]workspace.Stamp{},
		stored: map[string]bool{},
	}
	for _, f := range before.files {
		for _, name := range f.Contents {
			c.stored[name] = true
		}
	}
	c.put, c.ctx = errgroup.WithContext(ctx)
	c.put.SetLimit(uploads)
	return c
}

// same reports whether a file is the one that is stored, and keeps it then.
func (c *collection) same(path string, s workspace.Stamp) bool {
	if was, ok := c.before.stamps[path]; ok && was == s {
		c.files[path], c.stamps[path] = c.before.files[path], s
		return true
	}
	c.seen[path] = s
	return false
}

// WriteHeader implements workspace.Sink.
func (c *collection) WriteHeader(h *tar.Header) error {
	if err := c.end(); err != nil {
		return err
	}
	c.files[h.Name] = newFile(h)
	if s, ok := c.seen[h.Name]; ok && s.Changed.Before(c.begun.Add(-settled)) {
		c.stamps[h.Name] = s
	}
	if h.Typeflag != tar.TypeReg || h.Size == 0 {
		return nil
	}
	c.path = h.Name
	out, in := io.Pipe()
	c.in, c.done = in, make(chan error, 1)
	go func() { // ends when the pipe is closed, in end
		err := c.divide(c.path, out)
		c.done <- errors.Join(err, out.CloseWithError(errors.Join(err, io.ErrClosedPipe)))
	}()
	return nil
}

// Write implements workspace.Sink.
func (c *collection) Write(p []byte) (int, error) {
	if c.in == nil {
		return len(p), nil
	}
	return c.in.Write(p)
}

// end waits for the contents of a file.
func (c *collection) end() error {
	if c.in == nil {
		return nil
	}
	err := c.in.Close()
	err = errors.Join(<-c.done, err)
	c.in = nil
	return err
}

// divide stores the contents of a file.
func (c *collection) divide(path string, from io.Reader) error {
	parts := chunker.NewWithBoundaries(from, c.pol, minContent, maxContent)
	f := c.files[path]
	for {
		part, err := parts.Next(nil)
		if errors.Is(err, io.EOF) {
			c.files[path] = f
			return nil
		}
		if err != nil {
			return err
		}
		name := c.log.Name(part.Data)
		f.Contents = append(f.Contents, name)
		if c.stored[name] {
			continue
		}
		c.stored[name] = true
		c.put.Go(func() error { return c.log.Put(c.ctx, name, part.Data) })
	}
}

// finish waits until all contents are stored.
func (c *collection) finish() error {
	err := c.end()
	return errors.Join(err, c.put.Wait())
}

// abandon ends the collection after an error.
func (c *collection) abandon() {
	if c.in != nil {
		c.in.CloseWithError(context.Canceled)
		<-c.done
		c.in = nil
	}
	_ = c.put.Wait()
}

// changes returns the files that are not the same as before, and the paths of those that are gone.
func (c *collection) changes() (put map[string]file, gone []string) {
	put = map[string]file{}
	for path, f := range c.files {
		if was, ok := c.before.files[path]; !ok || !was.equal(f) {
			put[path] = f
		}
	}
	for path := range c.before.files {
		if _, ok := c.files[path]; !ok {
			gone = append(gone, path)
		}
	}
	return put, gone
}
