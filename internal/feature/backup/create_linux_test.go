package backup

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Until an export or a backup is complete, its directory has no file that a kill would leave.
func TestUnfinishedFileHasNoName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "export.age")
	err := createFile(path, func(w io.Writer) error {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
		_, err := io.WriteString(w, "content")
		return err
	})
	if b, readErr := os.ReadFile(path); err != nil || readErr != nil || string(b) != "content" {
		t.Errorf("%q, %v, %v", b, err, readErr)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	if err := createFile(path, func(io.Writer) error { return nil }); err == nil {
		t.Error("the file was replaced")
	}
}
