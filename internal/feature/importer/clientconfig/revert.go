package clientconfig

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config/rewrite"
)

const (
	backupSuffix = ".sandpiper-backup" // of the backup beside a file
	editedSuffix = ".sandpiper-edited" // of the copy of a file from which Undo took an entry that was edited
)

// written is a file that was written.
type written struct {
	Path    string     `json:"path"`
	Created bool       `json:"created,omitempty"` // there was no file before
	Removed [][]string `json:"removed,omitempty"` // tables and names of servers
	Hash    string     `json:"sha256"`            // of the new content; "" if only the backup was found
}

// Undone is the result of undoing the changes of one file.
type Undone struct {
	Path   string `json:"file"`
	Done   string `json:"done,omitempty"` // a predicate: "restored"; "" if the file was left unchanged
	Left   string `json:"left,omitempty"` // what could not be undone, and the remedy; "" otherwise
	Backup string `json:"-"`              // its path, "" if there is none
	Kept   bool   `json:"-"`              // keep returned a reason, or a file that belongs to no client was changed since

	text   []byte // the new content; nil for no file
	edited bool   // the entry that is removed was edited
	lost   bool   // servers that init removed are not in the backup
}

// write writes the planned content in place of now.
func (u Undone) write(now []byte) error {
	switch {
	case u.edited:
		if err := copyBeside(u.Path, editedSuffix, now); err != nil {
			return err
		}
	case now == nil || u.text != nil && bytes.Equal(now, u.text):
		return nil
	}
	if u.text == nil {
		return os.Remove(u.Path)
	}
	return rewrite.Write(rewrite.Change{Path: u.Path, Old: now, New: u.text, Mode: 0o600})
}

// fileAt returns the client's file with a path, in a project or not.
func fileAt(env Env, path string) (File, bool) {
	for _, dir := range []string{env.Dir, projectDir(path)} {
		env.Dir = dir
		all := files(env)
		if i := slices.IndexFunc(all, func(f File) bool { return f.Path == path }); i >= 0 {
			return all[i], true
		}
	}
	return File{}, false
}

// entryIn returns Sandpiper's entry in a text of the file, nil if there is none.
func (f File) entryIn(text []byte) map[string]any {
	d, _ := f.parse(text)
	fields, _ := tableAt(d.root, f.table)[EntryName].(map[string]any)
	return fields
}

// removed returns the tables and names of the servers that a text of the file has and another lacks,
// and of the entry of Sandpiper if it differs.
func (f File) removed(text, other []byte) (all [][]string) {
	d, err := f.parse(text)
	o, err2 := f.parse(other)
	if err != nil || err2 != nil {
		return nil
	}
	for _, table := range f.tables(d) {
		for _, name := range d.names(table) {
			was, is := tableAt(d.root, table)[name], tableAt(o.root, table)[name]
			if is == nil || name == EntryName && !reflect.DeepEqual(was, is) {
				all = append(all, append(slices.Clone(table), name))
			}
		}
	}
	return all
}

// hasRemoved reports whether init removed or replaced a server.
func (w written) hasRemoved(server []string) bool {
	return slices.ContainsFunc(w.Removed, func(r []string) bool { return slices.Equal(r, server) })
}

// isOurs reports whether init wrote the entry of Sandpiper: the original has none, or another one.
func (f File) isOurs(w written, saved []byte) bool {
	return f.entryIn(saved) == nil || w.hasRemoved(append(slices.Clone(f.table), EntryName))
}

// isEdited reports whether the text has an entry of ours that is not as init writes it, or has
// comments on it.
func (f File) isEdited(w written, now, saved []byte) bool {
	fields := f.entryIn(now)
	if fields == nil || !f.isOurs(w, saved) {
		return false
	}
	var s Server
	r := reader{entry: entry{fields: maps.Clone(fields)}, server: &s}
	r.target()
	l := Launch{Command: s.Command, Args: s.Args, Approved: fields["default_tools_approval_mode"] == "approve"}
	if len(s.Args) == 3 && (s.Args[1] == "--config" || s.Args[1] == "--dir") {
		s.Args = s.Args[:1]
	}
	if !slices.Equal(s.Args, []string{"serve"}) || !reflect.DeepEqual(fields, f.entryIn(f.Snippet(l))) {
		return true
	}
	without, err := f.Edit(now, Edit{Drop: []string{EntryName}})
	again, err2 := f.Edit(without, Edit{Put: &l})
	comments := func(text []byte) int {
		return bytes.Count(text, []byte("//")) + bytes.Count(text, []byte("/*")) + bytes.Count(text, []byte("#"))
	}
	return err != nil || err2 != nil || comments(again) < comments(now)
}

// revert plans to remove our entry from a text of the file that was changed since, and to put the
// servers back that init removed, as the backup has them.
func (f File) revert(u *Undone, w written, now, saved []byte) {
	text := now
	_, err := f.parse(now)
	edit := func(table []string, e Edit) {
		in := f
		if in.table = table; err == nil {
			text, err = in.Edit(text, e)
		}
	}
	var reverted, back []string
	if f.isOurs(w, saved) && f.entryIn(now) != nil {
		edit(f.table, Edit{Drop: []string{EntryName}})
		reverted = append(reverted, "removed "+EntryName)
	}
	for _, server := range slices.Backward(f.removed(saved, text)) { // each is put at the start
		if last := len(server) - 1; w.hasRemoved(server) || w.Hash == "" {
			edit(server[:last], Edit{Back: server[last:], Original: saved})
			back = slices.Insert(back, 0, server[last])
		}
	}
	if len(back) > 0 {
		reverted = append(reverted, "put back "+strings.Join(back, ", "))
	}
	u.Done = "was changed since; only the changes of sandpiper init were reverted: " + strings.Join(reverted, ", ")
	if len(reverted) == 0 {
		u.Done = "has no change of sandpiper init any more"
	}
	if u.edited {
		u.Done += "; the file with the edited entry is " + filepath.Base(w.Path) + editedSuffix
	}
	switch {
	case err != nil && saved != nil:
		u.Done, u.Left = "", "it was changed since and cannot be edited; its original is "+w.Path+backupSuffix
	case err != nil:
		u.Done, u.Left = "", "it was changed since and cannot be edited; remove the entry "+EntryName+" by hand"
	case w.Created && f.isEmpty(text):
		u.Done = strings.Replace(u.Done, "was changed since; only the changes of sandpiper init were reverted: removed "+EntryName,
			"removed; there was none before", 1)
	default:
		u.text = text
	}
	if lost := f.absent(w.Removed, text); err == nil && saved == nil && len(lost) > 0 {
		u.Left, u.lost = "the backup was removed; put these servers back by hand: "+strings.Join(lost, ", "), true
	}
}

// absent returns the names of the servers that a text of the file lacks.
func (f File) absent(servers [][]string, text []byte) (names []string) {
	d, _ := f.parse(text)
	for _, server := range servers {
		if last := len(server) - 1; tableAt(d.root, server[:last])[server[last]] == nil && server[last] != EntryName {
			names = append(names, server[last])
		}
	}
	return names
}

// isEmpty reports whether a text of the file contains neither settings nor comments.
func (f File) isEmpty(text []byte) bool {
	d, err := f.parse(text)
	return err == nil && len(others(d.root, f.table, nil)) == 0 && !bytes.ContainsAny(text, "/#")
}
