package home

import (
	"os"
	"path/filepath"
	"time"
)

// stale is how old a file in scratch is that nobody is going to move any more. It
// is there for less than a millisecond.
const stale = time.Minute

// scratch makes private/<id>/staging/, where a file of the workspace waits before
// it replaces another. What daemons that were killed left there goes. Where it
// cannot be made, on a full disk say, there is none.
func (p places) scratch() string {
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
