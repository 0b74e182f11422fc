package clientconfig

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Undone is what became of one change that was to be undone.
type Undone struct {
	Path string
	How  string // the end of a sentence: "restored as it was"; "" if it was left
	Left string // why the file was left alone, and what to do; "" if it was not
}

// Undo takes back all changes of the record, the last first. A file that others
// wrote since is not overwritten: of a client's file our part alone is taken
// back, any other file is left. What was left stays in the record.
func (r Record) Undo() ([]Undone, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	changes, err := r.load()
	if err != nil {
		return nil, err
	}
	var all []Undone
	for i := range slices.Backward(changes) {
		u := changes[i].undo()
		all = append(all, u)
		if u.Left != "" {
			continue
		}
		if changes[i].Backup != "" {
			os.Remove(changes[i].Backup)
		}
		changes = slices.Delete(changes, i, i+1)
		if err := r.save(changes); err != nil {
			return all, unwritable(r.Path, err)
		}
	}
	return all, nil
}

func (c change) undo() Undone {
	u := Undone{Path: c.Path}
	now, err := os.ReadFile(c.Path)
	gone := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !gone:
		u.Left = "it cannot be read"
	case gone && c.Before == "", !gone && hash(now) == c.Before:
		u.How = "is as it was already"
	case !gone && hash(now) == c.After && c.Before == "":
		u.How = "removed; there was none before"
		if os.Remove(c.Path) != nil {
			u.Left = "it cannot be removed"
		}
	case !gone && hash(now) == c.After:
		u.How, u.Left = "restored as it was", c.restore(now)
	case !gone && len(c.Tables) > 0:
		u.How, u.Left = "was written by another program since; what sandpiper init changed in it was taken back", c.takeBack(now)
	case gone:
		u.Left = "it was removed since; the copy is " + c.Backup
	default:
		u.Left = "it was edited since; "
		if c.Backup == "" {
			u.Left += "remove it by hand if it is not needed"
		} else {
			u.Left += "as it was before it is " + c.Backup
		}
	}
	if u.Left != "" {
		u.How = ""
	}
	return u
}

// restore puts the copy in the file's place.
func (c change) restore(now []byte) (left string) {
	old, err := os.ReadFile(c.Backup)
	if err != nil || hash(old) != c.Before {
		return "its copy " + c.Backup + " is gone or was changed"
	}
	if err := replace(c.Path, now, old, 0o600); err != nil {
		return fault.Message(unwritable(c.Path, err))
	}
	return ""
}

// takeBack edits a client's file the other way round.
func (c change) takeBack(now []byte) (left string) {
	var old []byte
	if c.Backup != "" {
		var err error
		if old, err = os.ReadFile(c.Backup); err != nil || hash(old) != c.Before {
			return "its copy " + c.Backup + " is gone or was changed"
		}
	}
	text := now
	for _, part := range c.Tables {
		f := File{Path: c.Path, table: part.Table, toml: part.TOML}
		e, changed := part.inverse(f, text, old)
		if changed != "" {
			return "it was edited since, and " + changed + " in it too; " + "take that out by hand"
		}
		var err error
		if text, err = f.Edit(text, e); err != nil {
			return fault.Message(err)
		}
	}
	if bytes.Equal(text, now) {
		return ""
	}
	if err := replace(c.Path, now, text, 0o600); err != nil {
		return fault.Message(unwritable(c.Path, err))
	}
	return ""
}

// inverse is the edit that takes part back in a text, unless an entry that was
// put there is no longer what it was.
func (p changedPart) inverse(f File, now, old []byte) (e Edit, changed string) {
	e.Put = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(p.Put)) {
		raw, there := f.Raw(now, name)
		if !there {
			continue
		}
		if !f.equal(raw, []byte(p.Put[name])) {
			return e, name
		}
		if before, had := f.Raw(old, name); had {
			e.Put[name] = before
		} else {
			e.Drop = append(e.Drop, name)
		}
	}
	for _, name := range p.Drop {
		_, again := f.Raw(now, name)
		if before, had := f.Raw(old, name); had && !again {
			e.Put[name] = before
		}
	}
	return e, ""
}

// equal compares entries but for space and comments.
func (f File) equal(a, b []byte) bool {
	if f.toml {
		return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
	}
	x, err := hujson.Minimize(a)
	y, err2 := hujson.Minimize(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
