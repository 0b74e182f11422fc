package skill

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// view is the directory of modules. The directory itself never changes, since
// it is mounted in sandboxes; files in it are replaced whole.
//
// Whoever changes it holds the lock and reads the database after getting it.
// So of several processes the last one to write has the newest truth, and the
// view ends up as the database is, whichever of them saved or died.
type view struct {
	dir  string
	lock *flock.Flock

	mu    sync.Mutex // one at a time in this process; the lock is for others
	known int64      // the count of changes that the view was found to show; -1 is none
}

const initModule = "\"\"\"Saved skills. Each is a module: from skills import NAME.\"\"\"\n"

func newView(dir, lock string) *view {
	return &view{dir: dir, lock: flock.New(lock, flock.SetPermissions(0o600)), known: -1}
}

// Refresh makes the view what the database says. It costs one small query if
// nobody has saved or deleted anything since the last time.
func (s *Store) Refresh(ctx context.Context) error {
	count, err := s.changes(ctx)
	if err != nil {
		return err
	}
	if s.view.shows(count) {
		return nil
	}
	err = s.view.locked(ctx, func() error {
		modules, count, err := s.modules(ctx)
		if err != nil {
			return err
		}
		if err := s.view.reconcile(modules); err != nil {
			return err
		}
		s.view.known = count
		return nil
	})
	if err != nil {
		return viewFault(err)
	}
	return nil
}

// show brings one module of the view up to date.
func (s *Store) show(ctx context.Context, name string) error {
	return s.view.locked(ctx, func() error {
		var sk Skill
		err := s.cfg.DB.View(ctx, func(tx *sql.Tx) (err error) {
			sk, err = load(ctx, tx, name)
			return err
		})
		if errors.Is(err, sql.ErrNoRows) {
			err = os.Remove(s.view.file(name + ".py"))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if err != nil {
			return err
		}
		return s.view.put(name+".py", []byte(sk.Code))
	})
}

func (s *Store) changes(ctx context.Context) (count int64, err error) {
	err = s.cfg.DB.View(ctx, func(tx *sql.Tx) error { return countChanges(ctx, tx, &count) })
	return count, err
}

func countChanges(ctx context.Context, tx *sql.Tx, count *int64) error {
	return tx.QueryRowContext(ctx, "SELECT count FROM skill_changes").Scan(count)
}

// modules returns the files that the view should hold, and the count of changes
// that they show.
func (s *Store) modules(ctx context.Context) (modules map[string][]byte, count int64, err error) {
	modules = map[string][]byte{"__init__.py": []byte(initModule)}
	err = s.cfg.DB.View(ctx, func(tx *sql.Tx) error {
		if err := countChanges(ctx, tx, &count); err != nil {
			return err
		}
		return each(ctx, tx, "SELECT s.name, s.code FROM skills AS s WHERE "+current, func(r scanner) error {
			var name string
			var code []byte
			err := r.Scan(&name, &code)
			modules[name+".py"] = code
			return err
		})
	})
	return modules, count, err
}

func (v *view) shows(count int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known == count
}

// locked runs f while no other process changes the view.
func (v *view) locked(ctx context.Context, f func() error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if ok, err := v.lock.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return err
	}
	defer v.lock.Unlock()
	return f()
}

// reconcile makes the directory hold exactly the modules.
func (v *view) reconcile(modules map[string][]byte) error {
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, wanted := modules[e.Name()]; wanted && e.Type().IsRegular() {
			continue
		}
		if err := os.RemoveAll(v.file(e.Name())); err != nil {
			return err
		}
	}
	for name, code := range modules {
		if old, err := os.ReadFile(v.file(name)); err == nil && bytes.Equal(old, code) {
			continue
		}
		if err := v.put(name, code); err != nil {
			return err
		}
	}
	return nil
}

// put replaces one file. It is not synced: what a loss of power takes from it
// the next reconcile puts back.
func (v *view) put(name string, code []byte) error {
	f, err := os.CreateTemp(v.dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(code)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), v.file(name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func (v *view) file(name string) string { return filepath.Join(v.dir, name) }

func viewFault(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "the directory of the skill modules cannot be brought up to date")
}
