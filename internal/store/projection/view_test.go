package projection_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/store/projection"
)

// newDirs are several processes' views of one directory.
func newDirs(t *testing.T, n int) (path string, dirs []*projection.Dir) {
	t.Helper()
	base := t.TempDir()
	path = filepath.Join(base, "view")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for range n {
		dirs = append(dirs, projection.New(path, filepath.Join(base, "lock")))
	}
	return path, dirs
}

func names(t *testing.T, path string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestFilesAreReplacedWholeAndOthersRemoved(t *testing.T) {
	path, dirs := newDirs(t, 1)
	d := dirs[0]
	at := time.UnixMilli(1_700_000_000_123)
	err := errors.Join(
		os.WriteFile(d.File("unwanted"), nil, 0o600),
		os.MkdirAll(filepath.Join(d.File("a"), "in the way"), 0o700),
		d.Keep(func(name string) bool { return name == "a" || name == "b" }),
		d.Put("a", []byte("old"), time.Time{}),
		d.Put("a", []byte("new"), at),
		d.Put("b", nil, time.Time{}),
		d.Remove("b"),
		d.Remove("b"),
	)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(d.File("a"))
	if err != nil || string(content) != "new" || !cmp.Equal(names(t, path), []string{"a"}) {
		t.Errorf("%q holds %q, %v", names(t, path), content, err)
	}
	if fi, err := os.Stat(d.File("a")); err != nil || fi.Mode().Perm() != 0o644 || fi.ModTime().UnixMilli() != at.UnixMilli() {
		t.Errorf("%v, %v", fi, err)
	}
}

func TestRefreshWorksOnceForEachVersion(t *testing.T) {
	_, dirs := newDirs(t, 1)
	worked := 0
	refresh := func(version, found int64, fails error) {
		t.Helper()
		err := dirs[0].Refresh(t.Context(), version, func() (int64, error) { worked++; return found, fails })
		if !errors.Is(err, fails) {
			t.Error(err)
		}
	}
	refresh(1, 1, nil)
	refresh(1, 1, nil)
	refresh(2, 3, nil) // somebody was faster
	refresh(3, 3, nil)
	refresh(4, 4, errors.New("no"))
	refresh(4, 4, nil)
	if worked != 4 {
		t.Errorf("the work was done %d times, want 4", worked)
	}
}

// TestTheLastToChangeHasTheNewestTruth: whoever reads the truth within Change
// does not overwrite what is newer.
func TestTheLastToChangeHasTheNewestTruth(t *testing.T) {
	path, dirs := newDirs(t, 3)
	var mu sync.Mutex
	truth := 0
	var all sync.WaitGroup
	for i, d := range dirs {
		all.Go(func() {
			for range 30 {
				mu.Lock()
				truth++
				mu.Unlock()
				err := d.Change(t.Context(), func() error {
					mu.Lock()
					now := truth
					mu.Unlock()
					return d.Put("n", []byte(fmt.Sprint(now)), time.Time{})
				})
				if err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	b, err := os.ReadFile(filepath.Join(path, "n"))
	if n, _ := strconv.Atoi(string(b)); err != nil || n != 90 || len(names(t, path)) != 1 {
		t.Errorf("it shows %q, %v, among %q", b, err, names(t, path))
	}
}
