package home

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Import creates a tenant from the archive that Export wrote: the exported tenant, or as if that
// is not zero. It reads r to its end and verifies everything before it creates the tenant. The
// quota of the new tenant applies. An existing tenant is refused.
func (t *Homes) Import(ctx context.Context, r io.Reader, as tenant.ID) (Transferred, error) {
	dir, remove, err := t.layout.transferDir()
	if err != nil {
		return Transferred{}, err
	}
	defer remove()
	i := importing{opener: t.opener, dir: dir, as: as}
	if err := i.read(ctx, r); err != nil {
		return i.done, i.explain(err)
	}
	if err := i.openDatabase(ctx); err != nil {
		return i.done, err
	}
	if err := i.opener.layout.install(i.done.Tenant, i.private(), i.workspace(), nil, hintImport); err != nil {
		return i.done, err
	}
	return i.done, i.opener.layout.wake(i.done.Tenant, i.pending)
}

// importing is one import, prepared in a directory.
type importing struct {
	opener opener
	dir    string
	as     tenant.ID
	from   manifest
	done   Transferred

	pending pending
}

func (i *importing) private() string   { return filepath.Join(i.dir, "private") }
func (i *importing) workspace() string { return filepath.Join(i.dir, "workspace") }

// explain returns the error of an archive that cannot be read, for the operator.
func (i *importing) explain(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Invalid, err, "the export is truncated, damaged or not one of Sandpiper: %v", err).
		WithHint("nothing was imported; export the tenant again")
}

func (i *importing) read(ctx context.Context, r io.Reader) error {
	for _, dir := range []string{i.private(), i.workspace()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return i.opener.layout.fault(err)
		}
	}
	tr := tar.NewReader(contextReader{ctx, r})
	if err := i.readManifest(tr); err != nil {
		return err
	}
	x, err := workspace.NewExtraction(i.workspace(), i.opener.settings(i.done.Tenant, "").Quota)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := i.readDatabase(tr, x); err != nil {
		return err
	}
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if h.Name == endEntry {
			return i.finish(tr, x, r)
		}
		if err := x.Add(h, filesPrefix, tr); err != nil {
			return err
		}
	}
}

// contextReader stops when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// maxJSONEntry bounds the entries in JSON, in bytes.
const maxJSONEntry = 64 << 10

func readJSONEntry(tr *tar.Reader, v any) error {
	b, err := io.ReadAll(io.LimitReader(tr, maxJSONEntry))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func (i *importing) readManifest(tr *tar.Reader) error {
	h, err := tr.Next()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if h.Name != manifestEntry {
		return fmt.Errorf("it starts with %.80q", h.Name)
	}
	if err := readJSONEntry(tr, &i.from); err != nil {
		return err
	}
	switch {
	case i.from.Format > exportFormat:
		return fault.New(fault.Unavailable, "the export has format %d, this Sandpiper knows formats up to %d", i.from.Format, exportFormat).
			WithHint("a newer Sandpiper wrote it: update this one")
	case i.from.Format < 1 || i.from.Tenant.IsZero() || len(i.from.Key) != 32:
		return errors.New("its manifest is incomplete")
	}
	if i.done.Tenant = i.from.Tenant; !i.as.IsZero() {
		i.done.Tenant = i.as
	} else if _, err := tenant.Parse(i.from.Tenant.String()); err != nil {
		return fault.Wrap(fault.Invalid, err, "%s", fault.Message(err)).WithHint("import it under another id with --as")
	}
	return i.opener.layout.checkNew(i.done.Tenant, hintImport)
}

func (i *importing) readDatabase(tr *tar.Reader, x *workspace.Extraction) error {
	h, err := tr.Next()
	if err != nil {
		return err
	}
	if h.Name != databaseEntry || h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%.80q is where the database must be", h.Name)
	}
	if err := x.CheckReserve(h.Size); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(i.private(), databaseEntry), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, tr)
	return errors.Join(err, f.Close())
}

// finish reads the rest of the archive, and compares its content with the totals in it. Decryption
// detects a change at its end only there.
func (i *importing) finish(tr *tar.Reader, x *workspace.Extraction, rest io.Reader) error {
	var want workspace.Archived
	if err := readJSONEntry(tr, &want); err != nil {
		return err
	}
	if _, err := tr.Next(); err != io.EOF {
		return errors.Join(err, errors.New("it continues after its end"))
	}
	if _, err := io.Copy(io.Discard, rest); err != nil {
		return err
	}
	got, err := x.Finish()
	got.Skipped, got.Changed = want.Skipped, want.Changed
	if i.done.Archived = got; err == nil && got != want {
		err = fmt.Errorf("it has %d files with %d bytes of %d with %d", got.Files, got.Bytes, want.Files, want.Bytes)
	}
	return err
}

// openDatabase checks the database and encrypts it with the keys of this data directory.
func (i *importing) openDatabase(ctx context.Context) (err error) {
	db, err := openDatabase(ctx, i.opener.layout, filepath.Join(i.private(), databaseEntry))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := i.checkDatabase(ctx, db); err != nil {
		return err
	}
	if err := store.ForgetCommits(ctx, db); err != nil {
		return err
	}
	from, err := exportStores(i.from.Tenant, db, i.from.Key)
	if err != nil {
		return err
	}
	to, err := i.opener.ownStores(i.done.Tenant, db)
	if err != nil {
		return err
	}
	if i.done.Damaged, err = from.rekey(ctx, to); err != nil {
		return err
	}
	if i.pending, err = i.opener.layout.pendingWork(ctx, db); err != nil {
		return err
	}
	return db.Compact(ctx)
}

// checkDatabase refuses a database that Sandpiper did not write: a recipient is public, so
// anybody can encrypt an archive for it. Triggers and views would run at later queries, and
// names of skills and sessions become names of files.
func (i *importing) checkDatabase(ctx context.Context, db *store.DB) error {
	if err := db.Check(ctx); err != nil {
		return i.explain(err)
	}
	if wal, err := db.IsWAL(ctx); err != nil || !wal {
		return errors.Join(err, i.explain(errors.New("its database is not in WAL mode")))
	}
	empty, err := openDatabase(ctx, i.opener.layout, filepath.Join(i.dir, "empty.db"))
	if err != nil {
		return err
	}
	defer empty.Close()
	want, err1 := empty.Schema(ctx)
	got, err2 := db.Schema(ctx)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if got != want {
		return i.explain(errors.New("its database has other tables"))
	}
	if err := i.checkNames(ctx, db); err != nil {
		return err
	}
	names, err := skill.New(skill.Config{DB: db}).List(ctx)
	for _, s := range names {
		if err == nil {
			err = skill.CheckName(s.Name)
		}
	}
	return err
}

// names are the columns whose values identify something, and are printed.
const names = `SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.type = 'TEXT'
	AND c.name IN ('name', 'id', 'execution', 'session', 'schedule', 'workflow', 'server', 'tool', 'state', 'outcome', 'reason', 'owner')`

// checkNames refuses names with control characters, since SQLite keeps even NUL in a text, and names
// of files with a slash.
func (i *importing) checkNames(ctx context.Context, db *store.DB) error {
	return db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, names)
		if err != nil {
			return err
		}
		defer rows.Close()
		var all []string
		for rows.Next() {
			var table, column string
			if err := rows.Scan(&table, &column); err != nil {
				return err
			}
			all = append(all, fmt.Sprintf("SELECT 1 FROM %q WHERE instr(%[2]q, char(0)) > 0 OR %[2]q GLOB '*[' || char(1) || '-' || "+
				"char(31) || char(127) || ']*'", table, column))
			if column == "owner" { // the name of a lock file
				all = append(all, fmt.Sprintf("SELECT 1 FROM %q WHERE instr(%[2]q, '/') > 0", table, column))
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		var bad bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS ("+strings.Join(all, " UNION ALL ")+")").Scan(&bad); err != nil {
			return err
		}
		if bad {
			return i.explain(errors.New("a name in its database is not allowed"))
		}
		return nil
	})
}
