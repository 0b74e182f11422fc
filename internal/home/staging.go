package home

import (
	"os"
	"path/filepath"
	"time"
)

// stale is the age from which a staging file is deleted as abandoned. A live one exists for less
// than a millisecond.
const stale = time.Minute

// staging creates private/<id>/staging/, where a file is completed before it replaces one in the
// workspace, and deletes files that killed daemons left there. It returns "" if the directory
// cannot be created, for example on a full disk.
func (p paths) staging() string {
	dir := filepath.Join(p.private, "staging")
	if mkdir(dir, 0o700) != nil {
		return ""
	}
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > stale {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return dir
}
