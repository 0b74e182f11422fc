package home

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// removeUnfinished removes the incomplete files with a prefix that killed processes have left in a
// directory.
func removeUnfinished(dir, prefix string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		fi, err := e.Info()
		if err == nil && fi.Mode().IsRegular() && strings.HasPrefix(e.Name(), prefix) && time.Since(fi.ModTime()) > stale {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// stale is the age from which an incomplete file is deleted as abandoned. A live one exists for less
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
	removeUnfinished(dir, "")
	return dir
}
