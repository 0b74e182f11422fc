package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// hintImport is the hint of checkNew for an import.
const hintImport = "import it under another id with --as, or delete that tenant first"

// hintRestore is the hint for the restore of a tenant that exists.
func hintRestore(id tenant.ID, s *Suspension) string {
	if s != nil {
		return "replace its data with --replace"
	}
	return fmt.Sprintf("suspend it with `sandpiper tenant suspend %s`, then replace its data with --replace", id)
}

// errExists is the error for a tenant that exists.
func errExists(id tenant.ID, hint string) error {
	return fault.New(fault.Invalid, "tenant %q exists already; nothing was changed", id).WithHint("%s", hint)
}

// checkNew refuses a tenant that exists.
func (l layout) checkNew(id tenant.ID, hint string) error {
	p := l.of(id)
	for _, path := range []string{p.private, p.workspace} {
		_, err := os.Lstat(path)
		if err == nil {
			return errExists(id, hint)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return dirFault(err)
		}
	}
	return nil
}

// incomplete suspends a tenant whose directories are not complete. It can be deleted.
func (p paths) incomplete(why string) error {
	return p.writeSuspension(&Suspension{Reason: why, Deleting: true})
}

// writeSuspension writes a suspension without announcing it, or removes it if s is nil.
func (p paths) writeSuspension(s *Suspension) error {
	if s == nil {
		if err := os.Remove(p.suspended); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return dirFault(err)
		}
		return dirFault(durable.SyncDir(p.private))
	}
	if s.Since.IsZero() {
		s.Since = time.Now().UTC().Truncate(time.Second)
	}
	b, err := json.Marshal(s)
	if err == nil {
		err = durable.WriteFile(p.suspended, append(b, '\n'))
	}
	return dirFault(err)
}

// install gives the directories of a new tenant their names. The tenant is suspended until all have
// them, and has the suspension last then; if that is interrupted, it can be deleted. hint is that of
// checkNew.
func (l layout) install(id tenant.ID, private, workspace string, last *Suspension, hint string) error {
	p := l.of(id)
	staged := paths{private: private, suspended: filepath.Join(private, suspendedFile),
		useLock: filepath.Join(private, filepath.Base(p.useLock))}
	if err := errors.Join(staged.writeUID(id), staged.incomplete("its import was interrupted")); err != nil {
		return err
	}
	if err := staged.makeUseLock(); err != nil {
		return dirFault(err)
	}
	if err := l.checkNew(id, hint); err != nil {
		return err
	}
	if err := os.Rename(private, p.private); err != nil {
		return errors.Join(l.checkNew(id, hint), dirFault(err))
	}
	if err := errors.Join(durable.SyncDir(l.private()), os.Rename(workspace, p.workspace), durable.SyncDir(l.workspaces())); err != nil {
		return dirFault(err)
	}
	return p.writeSuspension(last)
}

// makeUseLock creates the file of the use lock unless it exists. Its time is that of the last use.
func (p paths) makeUseLock() error {
	if _, err := os.Lstat(p.useLock); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.WriteFile(p.useLock, nil)
}

// setUsed sets the time of the last use of a tenant that is created.
func (p paths) setUsed(at time.Time) error {
	if err := p.makeUseLock(); err != nil || at.IsZero() {
		return err
	}
	return os.Chtimes(p.useLock, at, at)
}

// replace replaces the data of a tenant, whose use lock the caller holds exclusively, by new
// directories. The tenant cannot be used until that is complete, and has the suspension last then.
func (l layout) replace(id tenant.ID, private, workspace string, last *Suspension) error {
	p := l.of(id)
	if err := errors.Join(p.incomplete("its restore was interrupted"), dirFault(l.announce())); err != nil {
		return err
	}
	keep := map[string]bool{filepath.Base(p.useLock): true, suspendedFile: true, uidFile: true}
	old, err := os.ReadDir(p.private)
	for _, e := range old {
		if !keep[e.Name()] && err == nil {
			err = removeAll(filepath.Join(p.private, e.Name()))
		}
	}
	for _, dir := range []string{p.skillProjection, p.sessionProjection, p.workspace} {
		if err == nil {
			err = removeAll(dir)
		}
	}
	if err != nil {
		return dirFault(err)
	}
	files, err := os.ReadDir(private)
	for _, e := range files {
		if !keep[e.Name()] && err == nil {
			err = os.Rename(filepath.Join(private, e.Name()), filepath.Join(p.private, e.Name()))
		}
	}
	if err == nil {
		err = errors.Join(os.Rename(workspace, p.workspace), durable.SyncDir(p.private), durable.SyncDir(l.workspaces()))
	}
	if err != nil {
		return dirFault(err)
	}
	return p.writeSuspension(last)
}
