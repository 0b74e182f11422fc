package skill

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const initModule = "\"\"\"Saved skills. Each is a module: from skills import NAME.\"\"\"\n"

// Refresh updates the projection from the database. It costs one small query if nothing has
// changed.
func (s *Store) Refresh(ctx context.Context) error {
	count, err := s.changes(ctx)
	if err != nil {
		return err
	}
	err = s.view.Refresh(ctx, count, func() (int64, error) {
		modules, count, err := s.modules(ctx)
		if err != nil {
			return 0, err
		}
		return count, s.reconcile(modules)
	})
	if err != nil {
		return viewFault(err)
	}
	return nil
}

// show updates one module of the projection.
func (s *Store) show(ctx context.Context, name string) error {
	return s.view.Update(ctx, func() error {
		var sk Skill
		err := s.cfg.DB.View(ctx, func(tx *store.Tx) (err error) {
			sk, err = load(ctx, tx, name, 0)
			return err
		})
		if errors.Is(err, sql.ErrNoRows) {
			return s.view.Remove(name + ".py")
		}
		if err != nil {
			return err
		}
		return s.view.Put(name+".py", []byte(sk.Code), time.Time{})
	})
}

func (s *Store) changes(ctx context.Context) (count int64, err error) {
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error { return countChanges(ctx, tx, &count) })
	return count, err
}

func countChanges(ctx context.Context, tx *store.Tx, count *int64) error {
	return tx.QueryRowContext(ctx, "SELECT count FROM skill_changes").Scan(count)
}

// modules returns the files of the projection and the change count that they reflect.
func (s *Store) modules(ctx context.Context) (modules map[string][]byte, count int64, err error) {
	modules = map[string][]byte{"__init__.py": []byte(initModule)}
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
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

// reconcile writes the modules and deletes other files.
func (s *Store) reconcile(modules map[string][]byte) error {
	err := s.view.Prune(func(name string) bool { _, wanted := modules[name]; return wanted })
	if err != nil {
		return err
	}
	for name, code := range modules {
		if old, err := os.ReadFile(s.view.Path(name)); err == nil && bytes.Equal(old, code) {
			continue
		}
		if err := s.view.Put(name, code, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

func viewFault(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "update the directory of the skill modules")
}
