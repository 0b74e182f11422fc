package workspace

import (
	"errors"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// directories are the open directories of a workspace: each is opened when it is first needed, so
// that an unused workspace has none.
type directories struct {
	dir, staged string // see Config

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
func (all *directories) root() (*dir, error) {
	return all.at(all.dir, "the workspace cannot be opened")
}

// staging returns the directory Config.Staging, nil if there is none.
func (all *directories) staging() (*dir, error) {
	if all.staged == "" {
		return nil, nil
	}
	return all.at(all.staged, "open the staging directory")
}

// free returns the free bytes of the file system.
func (all *directories) free() (int64, error) {
	d, err := all.root()
	if err != nil {
		return 0, err
	}
	return freeBytes(d)
}

// openDir opens a directory of the workspace itself.
func (all *directories) openDir(p string) (*dir, error) {
	d, err := all.root()
	if err != nil {
		return nil, err
	}
	return d.openDir(p)
}
