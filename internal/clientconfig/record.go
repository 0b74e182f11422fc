package clientconfig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Record writes files so that it can be undone: before a file is changed, a copy
// lies beside it and the change stands in the record.
type Record struct {
	Path string // of the record's own file
}

// Write is one file to be written.
type Write struct {
	Path     string
	Old, New []byte // Old is what New was made from; nil for no file
	Mode     fs.FileMode
	Edits    []Edited // what of a client's file is different; none for a file of ours
}

// Edited is an edit of one table of a file.
type Edited struct {
	File File
	Edit Edit
}

// change is a Write as the record keeps it.
type change struct {
	Path   string        `json:"path"`
	Backup string        `json:"backup,omitempty"` // none if there was no file
	Before string        `json:"before,omitempty"` // hash of the file, none if there was none
	After  string        `json:"after"`
	Tables []changedPart `json:"tables,omitempty"`
}

type changedPart struct {
	Table []string          `json:"table"`
	TOML  bool              `json:"toml,omitempty"`
	Put   map[string]string `json:"put,omitempty"`
	Drop  []string          `json:"drop,omitempty"`
}

// errChanged is said of a file that another program wrote meanwhile.
var errChanged = errors.New("changed meanwhile")

// Do writes one file and returns where its copy lies, "" if there was no file
// before. A file that is no longer what Old says is left alone.
func (r Record) Do(w Write) (backup string, err error) {
	unlock, err := r.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := w.check(); err != nil {
		return "", err
	}
	changes, err := r.load()
	if err != nil {
		return "", err
	}
	c := change{Path: w.Path, After: hash(w.New)}
	if w.Old != nil {
		c.Before = hash(w.Old)
		if c.Backup, err = copyBeside(w.Path, w.Old); err != nil {
			return "", unwritable(w.Path, err)
		}
	}
	for _, e := range w.Edits {
		part := changedPart{Table: e.File.table, TOML: e.File.toml, Put: map[string]string{}, Drop: e.Edit.Drop}
		for name, raw := range e.Edit.Put {
			part.Put[name] = string(raw)
		}
		c.Tables = append(c.Tables, part)
	}
	err = r.save(append(changes, c))
	if err == nil {
		if err = replace(w.Path, w.Old, w.New, w.Mode); err == nil {
			return c.Backup, nil
		}
		err = errors.Join(err, r.save(changes))
	}
	if c.Backup != "" {
		os.Remove(c.Backup)
	}
	return "", unwritable(w.Path, err)
}

func unwritable(path string, err error) error {
	if errors.Is(err, errChanged) {
		return fault.Wrap(fault.Unavailable, err, "%s was written by another program meanwhile; it was left alone", path).
			WithHint("run the command again; if the client is running, quit it first")
	}
	return fault.Wrap(fault.Unavailable, err, "%s cannot be written", path).WithHint("the directory must be there and allow it")
}

// check refuses what should not be replaced.
func (w Write) check() error {
	info, err := os.Stat(w.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(w.Path); err == nil {
			return fault.New(fault.Invalid, "%s is a link that leads nowhere", w.Path)
		}
		return nil
	}
	if err != nil {
		return unwritable(w.Path, err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o200 == 0 {
		return fault.New(fault.Denied, "%s is no file that may be written", w.Path).WithHint("if it is made by a program, tell that program")
	}
	return nil
}

// lock keeps other commands from changing files at the same time.
func (r Record) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(r.Path), 0o700); err != nil {
		return nil, unwritable(r.Path, err)
	}
	l := flock.New(r.Path + ".lock")
	if ok, err := l.TryLock(); err != nil || !ok {
		return nil, fault.Wrap(fault.Unavailable, err, "another sandpiper init is at work").WithHint("try again when it is done")
	}
	return func() { _ = l.Unlock() }, nil
}

func (r Record) load() (changes []change, err error) {
	text, err := os.ReadFile(r.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &changes)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "%s, the record of what was changed, cannot be read", r.Path).
			WithHint("copies of changed files lie beside them; move the record away to begin anew")
	}
	return changes, nil
}

func (r Record) save(changes []change) error {
	if len(changes) == 0 {
		if err := os.Remove(r.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(changes, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	return put(r.Path, append(text, '\n'), 0o600, func() error { return nil })
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// copyBeside writes a copy with the mode of the file at path.
func copyBeside(path string, text []byte) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		name := path + ".sandpiper-backup"
		if n > 1 {
			name += "-" + strconv.Itoa(n)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()&0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return name, errors.Join(write(f, text), f.Close())
	}
}

func write(f *os.File, text []byte) error {
	_, err := f.Write(text)
	return errors.Join(err, f.Sync())
}

// replace puts a file in the place of another, at once, if that is still what
// old says. Its mode stays, and a link to it stays a link.
func replace(path string, old, text []byte, mode fs.FileMode) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return put(path, text, mode, func() error {
		now, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && old == nil:
			return nil
		case err != nil || old == nil || !bytes.Equal(now, old):
			return errors.Join(errChanged, err)
		}
		return nil
	})
}

// put writes beside path and renames, if check has no objection at the last
// moment.
func put(path string, text []byte, mode fs.FileMode, check func() error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".sandpiper-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f, text), f.Close(), os.Chmod(f.Name(), mode))
	if err == nil {
		if err = check(); err == nil {
			err = os.Rename(f.Name(), path)
		}
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Backups are the copies that lie beside changed files.
func (r Record) Backups() ([]string, error) {
	changes, err := r.load()
	var list []string
	for _, c := range changes {
		if c.Backup != "" && !slices.Contains(list, c.Backup) {
			list = append(list, c.Backup)
		}
	}
	return list, err
}
