package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Marks is a directory with a file for each tenant that has work of one kind to do later. The
// modification time of the file is when the next of it is due, its content the tenant. A daemon so finds
// work of any process without opening the databases of all tenants.
type Marks string

func (l layout) marks(name string) Marks { return Marks(filepath.Join(l.root, "due", name)) }

// Set records when the next work of a tenant is due; zero means none.
func (f Marks) Set(id tenant.ID, at time.Time) error {
	path := filepath.Join(string(f), id.Dir())
	if at.IsZero() {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	err := os.Chtimes(path, at, at)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(id.String()), 0o600); err != nil {
		return err
	}
	return os.Chtimes(path, at, at)
}

// clockStep is how far in the future a change of a file may be.
const clockStep = time.Second

// Due returns the tenants with work that is due, and those whose file was changed in the future:
// the clock was put back since, and intervals end earlier than the file states. The error names files
// that cannot be read, whose tenants' work does not run; the others are returned too.
func (f Marks) Due(now time.Time) (ids []tenant.ID, err error) {
	files, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, one := range files {
		fi, wrong := one.Info()
		if wrong != nil || fi.ModTime().After(now) && !changedOf(fi).After(now.Add(clockStep)) {
			continue
		}
		text, wrong := os.ReadFile(filepath.Join(string(f), one.Name()))
		if wrong != nil {
			if !errors.Is(wrong, fs.ErrNotExist) {
				err = errors.Join(err, wrong)
			}
			continue
		}
		id, wrong := tenant.ParseStored(string(text))
		if wrong != nil || id.Dir() != one.Name() { // written by another program, or incompletely
			continue
		}
		ids = append(ids, id)
	}
	return ids, err
}

// Postpone makes Due return a tenant that it has returned not before a time, unless its mark was removed.
func (f Marks) Postpone(id tenant.ID, at time.Time) error {
	if _, err := os.Stat(filepath.Join(string(f), id.Dir())); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return f.Set(id, at)
}
