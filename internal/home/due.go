package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// due is the directory with a file for each tenant that has background executions. The
// modification time of the file is when the next of them is due, its content the tenant. A
// daemon so finds work of any process without opening the databases of all tenants.
func (l layout) due() string { return filepath.Join(l.root, "due") }

// setDue records when the next background execution of a tenant is due; zero means none.
func (l layout) setDue(id tenant.ID, at time.Time) error {
	path := filepath.Join(l.due(), id.Dir())
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
	if err := os.MkdirAll(l.due(), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(id.String()), 0o600); err != nil {
		return err
	}
	return os.Chtimes(path, at, at)
}

// Due returns the tenants with background executions that are due.
func (t *Homes) Due(now time.Time) (ids []tenant.ID, err error) {
	files, err := os.ReadDir(t.layout.due())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		fi, err := f.Info()
		if err != nil || fi.ModTime().After(now) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(t.layout.due(), f.Name()))
		if err != nil {
			continue
		}
		id, err := tenant.Parse(string(text))
		if err != nil || id.Dir() != f.Name() { // written by another program, or incompletely
			continue
		}
		ids = append(ids, id)
	}
	return ids, err
}

// PostponeDue makes Due return the tenant not before a time.
func (t *Homes) PostponeDue(id tenant.ID, at time.Time) error { return t.layout.setDue(id, at) }
