package clientconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Record writes files so that the writes can be undone. Before it replaces a
// file it saves a copy of it, together with a diff that reverts the change. Both
// may contain secrets and have mode 0600. The list of written files contains
// paths and hashes only.
type Record struct {
	Dir string // of the list (init.json) and the copies (init-copies)
}

// Change is a new content for one file.
type Change struct {
	Path     string
	Old, New []byte      // Old is the content from which New was made; nil for no file
	Mode     fs.FileMode // of a new file; an existing file keeps its mode
}

// written is a file that was written.
type written struct {
	Path   string `json:"path"`
	Copy   string `json:"copy,omitempty"`   // of the original; "" if there was no file
	Before string `json:"before,omitempty"` // SHA-256 of the original
	After  string `json:"after"`            // SHA-256 of the new content
}

// diffFile returns the path of the diff that reverts the change.
func (w written) diffFile() string { return w.Copy + ".undo.diff" }

// removeCopy removes the copy and the diff.
func (w written) removeCopy() {
	if w.Copy != "" {
		os.Remove(w.Copy)
		os.Remove(w.diffFile())
	}
}

// Write writes one file and returns the path of its copy, "" if there was no
// file. It does not replace a file whose content is no longer Old. The copy and
// the list are on disk before the file is replaced.
func (r Record) Write(c Change) (saved string, err error) {
	unlock, err := r.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := checkWritable(c.Path); err != nil {
		return "", err
	}
	list, err := r.load()
	if err != nil {
		return "", err
	}
	w := written{Path: c.Path, After: hash(c.New)}
	if c.Old != nil {
		w.Before = hash(c.Old)
		if w.Copy, err = r.saveCopy(c); err != nil {
			w.removeCopy()
			return "", writeError(c.Path, err)
		}
	}
	if err = r.save(append(list, w)); err == nil {
		if err = replaceFile(c); err == nil {
			return w.Copy, nil
		}
		err = errors.Join(err, r.save(list))
	}
	w.removeCopy()
	return "", writeError(c.Path, err)
}

// Replace is Write without a copy and an entry in the list.
func (r Record) Replace(c Change) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkWritable(c.Path); err != nil {
		return err
	}
	if err := replaceFile(c); err != nil {
		return writeError(c.Path, err)
	}
	return nil
}

// saveCopy saves the original content of a file and the diff that restores it.
func (r Record) saveCopy(c Change) (path string, err error) {
	dir := filepath.Join(r.Dir, "init-copies")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for n := 1; path == ""; n++ {
		name := filepath.Join(dir, fmt.Sprintf("%d-%s", n, filepath.Base(c.Path)))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		path = name
		_, err = f.Write(c.Old)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return path, err
		}
	}
	revert := diff.Diff(c.Path, c.New, c.Path, c.Old)
	if err := durable.WriteFile(written{Copy: path}.diffFile(), revert); err != nil {
		return path, err
	}
	return path, durable.SyncDir(r.Dir)
}

// Copies returns the paths of the copies.
func (r Record) Copies() ([]string, error) {
	list, err := r.load()
	var paths []string
	for _, w := range list {
		if w.Copy != "" {
			paths = append(paths, w.Copy)
		}
	}
	return paths, err
}

func (r Record) path() string { return filepath.Join(r.Dir, "init.json") }

// lock excludes other processes that write or undo.
func (r Record) lock() (unlock func(), err error) {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, writeError(r.path(), err)
	}
	l := flock.New(r.path() + ".lock")
	if ok, err := l.TryLock(); err != nil || !ok {
		return nil, fault.Wrap(fault.Unavailable, err, "another sandpiper init is running").WithHint("run the command again when it has finished")
	}
	return func() { _ = l.Unlock() }, nil
}

func (r Record) load() (list []written, err error) {
	text, err := os.ReadFile(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "%s, the list of changed files, cannot be read", r.path()).
			WithHint("restore files by hand from %s, then remove the list", filepath.Join(r.Dir, "init-copies"))
	}
	return list, nil
}

// save replaces the list. An empty list is removed, together with the copies
// that a killed process may have left.
func (r Record) save(list []written) error {
	if len(list) == 0 {
		if err := os.Remove(r.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.RemoveAll(filepath.Join(r.Dir, "init-copies"))
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the list of changed files: %w", err)
	}
	return durable.WriteFile(r.path(), append(text, '\n'))
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Undone is the result of undoing one change.
type Undone struct {
	Path string
	Done string // a predicate: "restored"; "" if the file was left unchanged
	Left string // why the file was left unchanged, and the remedy; "" otherwise
	Kept bool   // keep returned a reason, or init made the file and it was changed since
}

// Undo undoes all changes, the last first. An unchanged file is restored from its
// copy. In a file that was changed since, only our change is reverted; if the
// same lines were changed, the file is left, and so is a file for which keep returns
// a reason. Files that are left stay in the list.
func (r Record) Undo(keep func(path string) (reason string)) ([]Undone, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	list, err := r.load()
	if err != nil {
		return nil, err
	}
	var all []Undone
	for i, w := range slices.Backward(list) {
		done, left := "", keep(w.Path)
		kept := left != ""
		if !kept {
			done, left = w.undo()
		}
		all = append(all, Undone{w.Path, done, left, kept || left == changedSince})
		if left != "" {
			continue
		}
		list = slices.Delete(list, i, i+1)
		if err := r.save(list); err != nil {
			return all, writeError(r.path(), err)
		}
		w.removeCopy()
	}
	return all, nil
}

// changedSince is why a file that init made was left.
const changedSince = "it was changed since; there was none before: edit or remove it by hand"

// undo restores one file.
func (w written) undo() (done, left string) {
	now, err := os.ReadFile(w.Path)
	gone := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !gone:
		return "", "it cannot be read"
	case gone && w.Copy == "", !gone && hash(now) == w.Before:
		return "was already restored", ""
	case gone:
		return "", "it was removed since; its original is " + w.Copy
	case w.Copy == "" && hash(now) != w.After:
		return "", changedSince
	case w.Copy == "":
		if os.Remove(w.Path) != nil {
			return "", "it cannot be removed"
		}
		return "removed; there was none before", ""
	}
	old, err := os.ReadFile(w.Copy)
	if err != nil || hash(old) != w.Before {
		return "", "its copy " + w.Copy + " was removed or changed"
	}
	done = "restored"
	if hash(now) != w.After {
		revert, _ := os.ReadFile(w.diffFile())
		text, ok := applyDiff(string(now), string(revert))
		if old = []byte(text); !ok || !parses(w.Path, old) {
			return "", "it was changed since; apply " + w.diffFile() + " by hand"
		}
		done = "was changed since; only the changes of sandpiper init were reverted"
	}
	if err := replaceFile(Change{Path: w.Path, Old: now, New: old, Mode: 0o600}); err != nil {
		return "", fault.Message(writeError(w.Path, err))
	}
	return done, ""
}

// parses reports whether the text of a file is valid, as far as its format is
// known.
func parses(path string, text []byte) bool {
	ext := filepath.Ext(path)
	if ext != ".json" && ext != ".toml" {
		return true
	}
	_, err := File{toml: ext == ".toml"}.parse(text)
	return err == nil
}
