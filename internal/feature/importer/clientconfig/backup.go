package clientconfig

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/config/rewrite"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Backups writes files in a way that Undo can take back. Beside each file that existed is one
// backup: the content that Undo restores if the file has not changed since. A later write keeps
// it, with the changes that were made by others in between.
type Backups struct {
	Dir string // of the list of written files, init.json: paths, hashes and names of servers only
	Env Env    // whose clients have the files
}

// Write writes one file and returns the path of its backup, "" if there was no file. It does not
// replace a file whose content is no longer Old. The backup is on disk before.
func (b Backups) Write(c rewrite.Change) (backup string, err error) {
	unlock, err := rewrite.Lock(b.Dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := rewrite.Check(c.Path); err != nil {
		return "", err
	}
	list, err := b.load()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(list, func(w written) bool { return w.Path == c.Path })
	next := slices.Clone(list)
	w, original, saved := written{Path: c.Path}, c.Old, readBackup(c.Path)
	if i >= 0 {
		w = list[i]
		next = slices.Delete(next, i, i+1)
		switch u := b.plan(w, c.Old, saved); {
		case u.Done != "":
			original = u.text
		case c.Old == nil:
			original = saved
		case !u.Kept:
			return "", fault.New(fault.Unavailable, "%s was not changed: %s", c.Path, u.Left).
				WithHint("mend it or move it away, then run the command again")
		}
	}
	w.Created, w.Hash = original == nil, hash(c.New)
	if f, ok := fileAt(b.Env, c.Path); ok {
		w.Removed = append(w.Removed, f.removed(c.Old, c.New)...)
	}
	if original != nil && (saved == nil || !bytes.Equal(saved, original)) {
		err = copyBeside(c.Path, backupSuffix, original)
	}
	if err == nil {
		err = b.save(append(next, w))
	}
	if err == nil {
		err = rewrite.Write(c)
	}
	if err != nil {
		if saved == nil {
			os.Remove(c.Path + backupSuffix)
		}
		return "", rewrite.Error(c.Path, errors.Join(err, b.save(list)))
	}
	if original != nil {
		backup = c.Path + backupSuffix
	}
	return backup, nil
}

// Undo undoes the changes of all files, the file that was written last first; with dry, it only
// returns what it would do. It restores the backup of a file that has not changed since. From a client's
// file that was changed it removes our entry, and it puts the servers back that were removed. It
// leaves other files that were changed, and those for which keep returns a reason.
func (b Backups) Undo(dry bool, keep func(path string) (reason string)) ([]Undone, error) {
	unlock, err := rewrite.Lock(b.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	list, err := b.load()
	if err != nil {
		return nil, err
	}
	var all []Undone
	lost := false
	for i, w := range slices.Backward(list) {
		now, err := readFile(w.Path)
		u := b.plan(w, now, readBackup(w.Path))
		reason := keep(w.Path)
		if _, isClients := fileAt(b.Env, w.Path); lost && !isClients {
			reason = "it may describe the servers that are to be put back by hand"
		}
		if reason != "" && u.Left == "" {
			u = Undone{Path: w.Path, Left: reason, Kept: true}
		}
		if err != nil {
			u = Undone{Path: w.Path, Left: "it " + err.Error()}
		}
		if u.Done != "" && !dry {
			if err := u.write(now); err != nil {
				u = Undone{Path: w.Path, Left: fault.Message(rewrite.Error(w.Path, err))}
			}
		}
		all, lost = append(all, u), lost || u.lost
		if u.Left != "" || dry { // it stays in the list
			continue
		}
		list = slices.Delete(list, i, i+1)
		if err := b.save(list); err != nil {
			return all, rewrite.Error(b.path(), err)
		}
		os.Remove(w.Path + backupSuffix)
	}
	return all, nil
}

// plan returns what undoing the writes of one file does.
func (b Backups) plan(w written, now, saved []byte) Undone {
	u := Undone{Path: w.Path}
	if saved != nil {
		u.Backup = w.Path + backupSuffix
	}
	f, isClients := fileAt(b.Env, w.Path)
	edited := isClients && f.isEdited(w, now, saved)
	unchanged := hash(now) == w.Hash && !edited
	_, invalid := f.parse(saved)
	switch {
	case now == nil && w.Created, saved != nil && bytes.Equal(now, saved):
		u.Done, u.text = "was already restored", now
	case now == nil && saved != nil:
		u.Left = "it was removed since; its original is " + w.Path + backupSuffix
	case now == nil:
		u.Done = "was removed since, and so was its backup"
	case isClients && invalid != nil:
		u.Left = "its backup " + u.Backup + " was changed and is invalid"
	case unchanged && w.Created:
		u.Done = "removed; there was none before"
	case unchanged && saved != nil:
		u.Done, u.text = "restored", saved
	case isClients:
		u.edited = edited
		f.revert(&u, w, now, saved)
	case w.Created:
		u.Left, u.Kept = "it was changed since; there was none before: edit or remove it by hand", true
	case saved == nil:
		u.Left, u.Kept = "its backup was removed", true
	default:
		u.Left, u.Kept = "it was changed since; its original is "+w.Path+backupSuffix, true
	}
	return u
}

func (b Backups) path() string { return filepath.Join(b.Dir, "init.json") }

// load returns the written files. A client's file beside which is a backup is one, if the list lacks it.
func (b Backups) load() (list []written, err error) {
	text, err := os.ReadFile(b.path())
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Invalid, err, "%s, the list of changed files, cannot be read", b.path()).
			WithHint("remove it; the original of each file that it listed is beside it, with the ending %s", backupSuffix)
	}
	for _, f := range files(b.Env) {
		listed := slices.ContainsFunc(list, func(w written) bool { return w.Path == f.Path })
		if !listed && readBackup(f.Path) != nil {
			list = append(list, written{Path: f.Path})
		}
	}
	return list, nil
}

// save replaces the list, and removes it if it is empty.
func (b Backups) save(list []written) error {
	if len(list) == 0 {
		if err := os.Remove(b.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(b.path(), append(text, '\n'))
}

// maxFile is the greatest size of a file. Claude Code stores its history in its configuration file.
const maxFile = 32 << 20

// readFile returns the content of a file, nil if it does not exist. Its errors are predicates.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		return nil, errors.New("is not a regular file of at most 32 MiB")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("cannot be read")
	}
	return text, nil
}

// readBackup returns the backup of a file, nil if it has none.
func readBackup(path string) []byte {
	text, _ := readFile(path + backupSuffix)
	return text
}

// copyBeside writes a text to the path with a suffix, with the mode of the file at path.
func copyBeside(path, suffix string, text []byte) error {
	return durable.ReplaceFile(path+suffix, text, rewrite.ModeOf(path, 0o600), nil)
}

func hash(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }
