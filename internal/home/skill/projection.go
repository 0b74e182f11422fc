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
	"github.com/sandpiper-mcp/sandpiper/internal/store/projection"
)

const initModule = "\"\"\"Saved skills. Each is a module: from skills import NAME.\"\"\"\n"

// modules are the projection of the current versions.
type modules struct {
	db  *store.DB
	dir *projection.Dir
}

// Refresh updates the projection from the database. It costs one small query if nothing has
// changed.
func (m modules) Refresh(ctx context.Context) error {
	count, err := m.changes(ctx)
	if err != nil {
		return err
	}
	err = m.dir.Refresh(ctx, count, func() (int64, error) {
		files, count, err := m.all(ctx)
		if err != nil {
			return 0, err
		}
		return count, m.reconcile(files)
	})
	if _, ok := errors.AsType[*fault.Error](err); err == nil || ok {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "update the directory of the skill modules")
}

// show updates one module of the projection.
func (m modules) show(ctx context.Context, name string) error {
	return m.dir.Update(ctx, func() error {
		var sk Skill
		err := m.db.View(ctx, func(tx *store.Tx) (err error) {
			sk, err = load(ctx, tx, name, 0)
			return err
		})
		if errors.Is(err, sql.ErrNoRows) {
			return m.dir.Remove(name + ".py")
		}
		if err != nil {
			return err
		}
		return m.dir.Put(name+".py", []byte(sk.Code), time.Time{})
	})
}

func (m modules) changes(ctx context.Context) (count int64, err error) {
	err = m.db.View(ctx, func(tx *store.Tx) error { return countChanges(ctx, tx, &count) })
	return count, err
}

func countChanges(ctx context.Context, tx *store.Tx, count *int64) error {
	return tx.QueryRowContext(ctx, "SELECT count FROM skill_changes").Scan(count)
}

// all returns the files of the projection and the change count that they reflect.
func (m modules) all(ctx context.Context) (files map[string][]byte, count int64, err error) {
	files = map[string][]byte{"__init__.py": []byte(initModule)}
	err = m.db.View(ctx, func(tx *store.Tx) error {
		if err := countChanges(ctx, tx, &count); err != nil {
			return err
		}
		return each(ctx, tx, "SELECT s.name, s.code FROM skills AS s WHERE "+current, func(r scanner) error {
			var name string
			var code []byte
			err := r.Scan(&name, &code)
			files[name+".py"] = code
			return err
		})
	})
	return files, count, err
}

// reconcile writes the files and deletes others.
func (m modules) reconcile(files map[string][]byte) error {
	err := m.dir.Prune(func(name string) bool { _, wanted := files[name]; return wanted })
	if err != nil {
		return err
	}
	for name, code := range files {
		if old, err := os.ReadFile(m.dir.Path(name)); err == nil && bytes.Equal(old, code) {
			continue
		}
		if err := m.dir.Put(name, code, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}
