package codegen_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestUnchangedPackagesAreNotCompared changes a file behind the back of the record, so that a comparison
// can be told from none.
func TestUnchangedPackagesAreNotCompared(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, path, record string)
		repair bool
	}{
		{"nothing", func(*testing.T, string, string) {}, false},
		{"content", func(t *testing.T, path, _ string) {
			rewrite(t, filepath.Join(path, "one", "g.py"), func(b []byte) []byte { return append(b, "#\n"...) })
		}, true},
		{"removed", func(t *testing.T, path, _ string) {
			if err := os.Remove(filepath.Join(path, "one", "g.py")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"unreadable", func(t *testing.T, path, _ string) {
			if err := os.Chmod(filepath.Join(path, "one", "g.py"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"other boot", func(t *testing.T, _, record string) {
			rewrite(t, record, func(b []byte) []byte {
				return regexp.MustCompile(`"boot":"[^"]+"`).ReplaceAll(b, []byte(`"boot":"other"`))
			})
		}, true},
		{"other program", func(t *testing.T, _, record string) {
			rewrite(t, record, func(b []byte) []byte {
				return regexp.MustCompile(`"program":"[^"]+"`).ReplaceAll(b, []byte(`"program":"1 2"`))
			})
		}, true},
		{"torn record", func(t *testing.T, _, record string) {
			rewrite(t, record, func(b []byte) []byte { return b[:len(b)-1] })
		}, true},
		{"no record", func(t *testing.T, _, record string) {
			if err := os.Remove(record); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, dirs := newDirs(t, 2)
			servers := twoServers()
			checkSync(t, path, dirs[0], servers, "one", "two")
			f := filepath.Join(path, "one", "f.py")
			rewrite(t, f, func(b []byte) []byte { return bytes.ToUpper(b) })
			age(t, path)
			c.change(t, path, filepath.Join(filepath.Dir(path), "lock.compared"))
			changed, err := dirs[1].Sync(t.Context(), servers)
			if err != nil {
				t.Fatal(err)
			}
			if repaired := cmp.Equal(tree(servers), onDisk(t, path)); repaired != c.repair || len(changed) > 0 != c.repair {
				t.Errorf("repaired: %v, %v; want %v", repaired, changed, c.repair)
			}
			servers[0].Tools[0].Description += " More."
			if _, err := dirs[1].Sync(t.Context(), servers); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tree(servers), onDisk(t, path)); diff != "" {
				t.Errorf("after a change of the tool: %s", diff)
			}
		})
	}
}

// TestRecordOfComparisonIsRenewed checks that a package that was just written is compared once more.
func TestRecordOfComparisonIsRenewed(t *testing.T) {
	path, dirs := newDirs(t, 2)
	checkSync(t, path, dirs[0], twoServers(), "one", "two")
	rewrite(t, filepath.Join(path, "two", "f.py"), bytes.ToUpper) // at the time of the comparison, as far as the clock tells
	checkSync(t, path, dirs[1], twoServers(), "two")
}

func rewrite(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, f(b), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// age makes all files and directories below path an hour old.
func age(t *testing.T, path string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(name, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
}
