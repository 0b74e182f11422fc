package cluster

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// control is the name of the log of what all tenants share. No tenant has a directory of that name.
const control = "_control"

// sharedDirs are directories of files that all tenants share: trusted definitions, logins and documents.
var sharedDirs = []string{"catalog", "logins", "documents"}

const keysDatabase = "access.db" // API keys, as hashes

// copyShared writes an entry if what all tenants share has changed.
func (l *loop) copyShared(ctx context.Context) error {
	if l.control == nil {
		log, err := l.store.named(control)
		if err != nil {
			return err
		}
		l.control = &shipper{node: l.node, log: log, shared: l.store}
	}
	return l.control.sync(ctx, shared(l.store.dir))
}

// shared is a data directory as the original of what all tenants share.
type shared string

// Database implements original.
func (shared) Database(context.Context) (*store.DB, error) { return nil, nil }

// Files implements original. The names are relative to the data directory.
func (d shared) Files(ctx context.Context, to workspace.Sink, same func(string, workspace.Stamp) bool) (done workspace.Archived,
	err error) {
	names := []string{packages.LockName}
	for _, dir := range sharedDirs {
		files, err := os.ReadDir(filepath.Join(string(d), dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return done, err
		}
		for _, f := range files {
			if f.Type().IsRegular() && !strings.HasSuffix(f.Name(), ".lock") && f.Name() != "lock" && f.Name()[0] != '.' {
				names = append(names, dir+"/"+f.Name())
			}
		}
	}
	for _, name := range names {
		if err := d.file(to, same, name, filepath.Join(string(d), name)); err != nil {
			return done, err
		}
	}
	return done, errors.Join(d.keys(ctx, to, same), d.audit(to))
}

// file writes a file, unless it does not exist or is the same.
func (d shared) file(to workspace.Sink, same func(string, workspace.Stamp) bool, name, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || same(name, workspace.Stamp{Changed: info.ModTime()}) {
		return err
	}
	return write(to, name, f, info.Size())
}

func write(to workspace.Sink, name string, content io.Reader, size int64) error {
	err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size})
	if err == nil {
		_, err = io.CopyN(to, content, size)
	}
	return err
}

// keys writes a copy of the database of API keys.
func (d shared) keys(ctx context.Context, to workspace.Sink, same func(string, workspace.Stamp) bool) error {
	path := filepath.Join(string(d), keysDatabase)
	changed := workspace.Stamp{}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil && info.ModTime().After(changed.Changed) {
			changed.Changed = info.ModTime()
		}
	}
	if changed.Changed.IsZero() || same(keysDatabase, changed) {
		return nil
	}
	dir, err := os.MkdirTemp(string(d), ".new-copy-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, keysDatabase)
	if err := store.Snapshot(ctx, path, copied); err != nil {
		return err
	}
	return d.file(to, func(string, workspace.Stamp) bool { return false }, keysDatabase, copied)
}

// audit writes the audit log with a valid end.
func (d shared) audit(to workspace.Sink) error {
	configuration := filepath.Join(string(d), "audit", "configuration")
	if err := d.file(to, func(string, workspace.Stamp) bool { return false }, "audit/configuration", configuration); err != nil {
		return err
	}
	cfg, err := daemon.AuditConfig(string(d))
	if err != nil {
		return err
	}
	log, err := audit.Open(cfg)
	if err != nil {
		return err
	}
	defer log.Close()
	s, err := log.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	for _, f := range s.Files {
		if err := write(to, "audit/"+f.Name, f.Content, f.Content.Size()); err != nil {
			return err
		}
	}
	return nil
}

// addShared adds the entries of what all tenants share, as of an entry of its log.
func addShared(ctx context.Context, s *bucketStore, n uint64, add func(*tar.Header, io.Reader) error) error {
	log, err := s.named(control)
	if err != nil {
		return err
	}
	h, err := readHead(ctx, log, n)
	if err != nil {
		return err
	}
	files := map[string]file{}
	for i := h.Base; i <= n; i++ {
		if h, err = readHead(ctx, log, i); err != nil {
			return err
		}
		h.apply(files)
	}
	for path, f := range files {
		if !fs.ValidPath(path) {
			return &fs.PathError{Op: "restore", Path: path, Err: fs.ErrInvalid}
		}
		h := f.header(path)
		if err := add(&h, &contents{ctx: ctx, log: log, left: f.Contents}); err != nil {
			return err
		}
	}
	return nil
}
