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

// newDirs returns n Dirs for one directory, as n processes would have them.
func newDirs(t *testing.T, n int) (path string, dirs []*projection.Dir) {
	t.Helper()
	base := t.TempDir()
	path = filepath.Join(base, "projection")
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

func TestPutReplacesAndPruneRemoves(t *testing.T) {
	path, dirs := newDirs(t, 1)
	d := dirs[0]
	at := time.UnixMilli(1_700_000_000_123)
	err := errors.Join(
		os.WriteFile(d.Path("unwanted"), nil, 0o600),
		os.MkdirAll(filepath.Join(d.Path("a"), "in the way"), 0o700),
		d.Prune(func(name string) bool { return name == "a" || name == "b" }),
		d.Put("a", []byte("old"), time.Time{}),
		d.Put("a", []byte("new"), at),
		d.Put("b", nil, time.Time{}),
		d.Remove("b"),
		d.Remove("b"),
	)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(d.Path("a"))
	if err != nil || string(content) != "new" || !cmp.Equal(names(t, path), []string{"a"}) {
		t.Errorf("%q, content %q, %v", names(t, path), content, err)
	}
	if fi, err := os.Stat(d.Path("a")); err != nil || fi.Mode().Perm() != 0o644 || fi.ModTime().UnixMilli() != at.UnixMilli() {
		t.Errorf("%v, %v", fi, err)
	}
}

func TestRefreshRunsOncePerVersion(t *testing.T) {
	_, dirs := newDirs(t, 1)
	calls := 0
	refresh := func(version, found int64, fails error) {
		t.Helper()
		err := dirs[0].Refresh(t.Context(), version, func() (int64, error) { calls++; return found, fails })
		if !errors.Is(err, fails) {
			t.Error(err)
		}
	}
	refresh(1, 1, nil)
	refresh(1, 1, nil)
	refresh(2, 3, nil) // another process changed the database
	refresh(3, 3, nil)
	refresh(4, 4, errors.New("no"))
	refresh(4, 4, nil)
	if calls != 4 {
		t.Errorf("%d calls, want 4", calls)
	}
}

// A writer that reads the source within Update does not overwrite newer data.
func TestLastUpdateHasNewestData(t *testing.T) {
	path, dirs := newDirs(t, 3)
	var mu sync.Mutex
	source := 0
	var all sync.WaitGroup
	for i, d := range dirs {
		all.Go(func() {
			for range 30 {
				mu.Lock()
				source++
				mu.Unlock()
				err := d.Update(t.Context(), func() error {
					mu.Lock()
					now := source
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
		t.Errorf("content %q, %v, among %q", b, err, names(t, path))
	}
}

func TestLinkReplacesFile(t *testing.T) {
	path, dirs := newDirs(t, 1)
	d := dirs[0]
	at := time.UnixMilli(1_700_000_000_123)
	for _, content := range []string{"first", "second"} {
		err := errors.Join(
			os.WriteFile(d.Path(".new-link"), []byte("left by a killed process"), 0o600),
			d.Put("a", []byte(content), at),
			d.Link("a", "b"),
			d.Link("a", "b"), // the same file already
		)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(d.Path("b"))
		if err != nil || string(b) != content {
			t.Errorf("b contains %q, %v", b, err)
		}
		if got, want := names(t, path), []string{"a", "b"}; !cmp.Equal(got, want) {
			t.Errorf("the directory contains %q", got)
		}
	}
}
