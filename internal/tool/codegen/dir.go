package codegen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/projection"
)

// Dir writes generated modules to the directory that is mounted as servers/.
//
// The directory itself is never replaced, because sandboxes mount it; each file in
// it is replaced atomically. The last line of a server's __init__.py is a stamp: a
// hash of the definitions that all its files were generated from. It is removed
// before any file changes and written last, so a server with a matching stamp is
// complete, whichever process wrote it and wherever another was killed. The first
// Sync of a process compares every file that has changed since the last comparison,
// or all after a start of the system, which repairs other damage such as that of a
// power loss.
//
// It is safe for concurrent use, and several processes may use the same
// directory: if their definitions differ, the last Sync wins. It never follows a
// symbolic link out of the directory, and removes links inside it.
type Dir struct {
	path   string
	lock   *projection.Dir
	record string // file of compared

	mu       sync.Mutex
	known    map[string]state // by module; set once every file was compared
	compared compared         // that other processes read
}

// state is a server and the stamp of its files.
type state struct {
	server Server
	stamp  string
}

// NewDir returns the Dir at path, which must exist. The first Sync creates the
// lock file, which must be outside path, and another file next to it.
func NewDir(path, lock string) *Dir {
	return &Dir{path: path, lock: projection.New(path, lock), record: lock + ".compared", known: map[string]state{}}
}

// Sync makes the directory contain exactly the modules of these servers. It
// returns the sorted Python names of the servers whose files were written or
// removed. The fault kind is Unavailable if the directory cannot be read or written.
func (d *Dir) Sync(ctx context.Context, servers []Server) (changed []string, err error) {
	return SyncNow(ctx, d, func() []Server { return servers })
}

// SyncNow is Dir.Sync with the servers that a function returns, which is called while no other process writes: what it
// reads is not older than what is in the directory.
func SyncNow(ctx context.Context, d *Dir, servers func() []Server) (changed []string, err error) {
	err = d.lock.Update(ctx, func() error {
		root, err := os.OpenRoot(d.path)
		if err != nil {
			return err
		}
		defer root.Close()
		d.mu.Lock()
		if d.compared.At == nil {
			d.compared = readCompared(d.record)
		}
		d.mu.Unlock()
		changed, err = d.sync(ctx, root, withModuleNames(servers()))
		return errors.Join(err, d.saveCompared())
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Wrap(fault.Unavailable, err, "cannot update the directory of the generated modules").
			WithHint("check that the disk is not full and that this user owns the data directory")
	}
	slices.Sort(changed)
	return changed, nil
}

func (d *Dir) sync(ctx context.Context, root *os.Root, servers []Server) (changed []string, err error) {
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	wrote := make([]bool, len(servers))
	for i, s := range servers {
		all.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			wrote[i], err = d.server(root, s)
			return err
		})
	}
	err = all.Wait()
	wanted := map[string]bool{}
	for i, s := range servers {
		wanted[s.Module] = true
		if wrote[i] {
			changed = append(changed, s.Module)
		}
	}
	if err != nil {
		return nil, err
	}
	gone, err := d.remove(root, wanted)
	if err != nil {
		return nil, err
	}
	_, err = write(root, ".", Root(servers))
	return append(changed, gone...), err
}

// remove removes entries that belong to no server in wanted. It returns the names
// of the removed servers.
func (d *Dir) remove(root *os.Root, wanted map[string]bool) (gone []string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if wanted[e.Name()] || e.Name() == initName && e.Type().IsRegular() {
			continue
		}
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			gone = append(gone, e.Name())
		}
		d.forget(e.Name())
		if err := root.RemoveAll(e.Name()); err != nil {
			return nil, err
		}
	}
	return gone, nil
}

func (d *Dir) forget(module string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, module)
}

// server updates the package of one server. If the files still have the stamp
// that this process wrote, it generates only modules whose definitions changed.
func (d *Dir) server(root *os.Root, s Server) (changed bool, err error) {
	d.mu.Lock()
	before, checked := d.known[s.Module]
	d.mu.Unlock()
	now := before
	if !checked || !before.server.equal(s) {
		now = state{s, stamp(s)}
		now.server.Tools = slices.Clone(s.Tools) // the caller may modify its slice
	}
	right := hasStamp(root, s.Module, now.stamp)
	if right && (checked || d.unchanged(root, s.Module)) {
		d.remember(now)
		return false, nil
	}
	var base *Server
	var made map[string][]byte
	if checked && hasStamp(root, s.Module, before.stamp) {
		base = &before.server
		data, _ := root.ReadFile(s.Module + "/" + indexName) // without it, all functions are generated again
		made = records(data)
	}
	if !right {
		if err := removeStamp(root, s.Module); err != nil {
			return false, err
		}
	}
	changed, err = rewrite(root, s, generate(s, base, made))
	if err == nil {
		d.remember(now)
		if base == nil {
			d.noteCompared(s.Module)
		}
	}
	return changed, err
}

func (d *Dir) remember(k state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[k.server.Module] = k
}

// hasStamp reports whether a package ends with the stamp.
func hasStamp(root *os.Root, module, stamp string) bool {
	f, err := root.Open(module + "/" + initName)
	if err != nil {
		return false
	}
	defer f.Close()
	line := []byte("\n" + stamp + "\n")
	if _, err := f.Seek(-int64(len(line)), io.SeekEnd); err != nil {
		return false
	}
	last, err := io.ReadAll(f)
	return err == nil && bytes.Equal(last, line)
}

// removeStamp removes the stamp of a package before its files change. If the
// process is killed before it writes the new stamp, the next Sync checks each file.
func removeStamp(root *os.Root, module string) error {
	name := module + "/" + initName
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil // no package yet
	}
	old, err := root.ReadFile(name)
	if err != nil {
		return err
	}
	i := bytes.LastIndex(old, []byte("\n"+stampPrefix))
	if i < 0 {
		return nil
	}
	_, err = write(root, module, []File{{name, old[:i+1]}})
	return err
}

// rewrite makes the package contain these files. A new package is created
// atomically.
func rewrite(root *os.Root, s Server, files []File) (changed bool, err error) {
	info, err := root.Lstat(s.Module)
	if err == nil && info.IsDir() {
		return update(root, s.Module, files)
	}
	if err == nil {
		err = root.RemoveAll(s.Module)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, create(root, s.Module, files)
}

func create(root *os.Root, module string, files []File) error {
	fresh := tempPrefix + module
	if err := root.RemoveAll(fresh); err != nil {
		return err
	}
	if err := errors.Join(root.Mkdir(fresh, 0o755), root.Chmod(fresh, 0o755)); err != nil {
		return err
	}
	for _, f := range files {
		if err := createFile(root, fresh+strings.TrimPrefix(f.Path, module), f.Data); err != nil {
			return err
		}
	}
	return root.Rename(fresh, module)
}

// update removes other entries, writes the files that differ, and writes the file
// with the stamp last.
func update(root *os.Root, module string, files []File) (changed bool, err error) {
	wanted := map[string]bool{}
	for _, f := range files {
		wanted[f.Path] = true
	}
	entries, err := fs.ReadDir(root.FS(), module)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if path := module + "/" + e.Name(); !wanted[path] || !e.Type().IsRegular() {
			changed = true
			if err := root.RemoveAll(path); err != nil {
				return false, err
			}
		}
	}
	first := slices.IndexFunc(files, func(f File) bool { return f.Path == module+"/"+initName })
	files = append(slices.Delete(slices.Clone(files), first, first+1), files[first])
	wrote, err := write(root, module, files)
	return changed || wrote, err
}
