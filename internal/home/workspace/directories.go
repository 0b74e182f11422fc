package workspace

import (
	"errors"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// directories are the open directories of a workspace: each is opened when it is first needed, so
// that an unused workspace has none.
type directories struct {
	mu   sync.Mutex
	open map[string]*dir // by path
}

// at returns the directory at path, which stays open until close; problem is the message of an error.
func (all *directories) at(path, problem string) (*dir, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if d := all.open[path]; d != nil {
		return d, nil
	}
	d, err := openRoot(path)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "%s", problem)
	}
	if all.open == nil {
		all.open = map[string]*dir{}
	}
	all.open[path] = d
	return d, nil
}

func (all *directories) close() error {
	all.mu.Lock()
	defer all.mu.Unlock()
	var errs []error
	for _, d := range all.open {
		errs = append(errs, d.Close())
	}
	all.open = nil
	return errors.Join(errs...)
}

// root returns the directory of the workspace.
func root(f *Files) (*dir, error) { return f.dirs.at(f.cfg.Dir, "the workspace cannot be opened") }

// staging returns the directory Config.Staging, nil if there is none.
func staging(f *Files) (*dir, error) {
	if f.cfg.Staging == "" {
		return nil, nil
	}
	return f.dirs.at(f.cfg.Staging, "open the staging directory")
}

// free returns the free bytes of the file system.
func free(f *Files) (int64, error) {
	d, err := root(f)
	if err != nil {
		return 0, err
	}
	return d.free()
}

// openDir opens a directory of the workspace itself.
func openDir(f *Files, p string) (*dir, error) {
	d, err := root(f)
	if err != nil {
		return nil, err
	}
	return d.openDir(p)
}
