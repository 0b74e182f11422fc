package codegen_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// newDirs returns n Dirs for one directory, as n processes would have them.
func newDirs(t testing.TB, n int) (path string, dirs []*codegen.Dir) {
	t.Helper()
	base := t.TempDir()
	path = filepath.Join(base, "servers")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for range n {
		dirs = append(dirs, codegen.NewDir(path, filepath.Join(base, "lock")))
	}
	return path, dirs
}

// checkSync syncs d and fails unless it reports these servers as changed and the
// directory contains the generated files.
func checkSync(t *testing.T, path string, d *codegen.Dir, servers []codegen.Server, changed ...string) {
	t.Helper()
	got, err := d.Sync(t.Context(), servers)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(changed, got); d != "" {
		t.Errorf("changed: %s", d)
	}
	if d := cmp.Diff(tree(servers), onDisk(t, path)); d != "" {
		t.Errorf("on disk: %s", d)
	}
}

func twoServers() []codegen.Server {
	a, b := definition(`{"properties":{"x":{"type":"string"}}}`), definition(`{}`)
	b.Tool = "g"
	return []codegen.Server{{Name: "one", Tools: []tool.Definition{a, b}}, {Name: "two", Tools: []tool.Definition{a}, Prompts: true}}
}

func TestSyncAppliesChanges(t *testing.T) {
	path, dirs := newDirs(t, 2)
	servers := twoServers()
	checkSync(t, path, dirs[0], servers, "one", "two")
	checkSync(t, path, dirs[0], servers)
	checkSync(t, path, dirs[1], servers)
	servers[0].Tools = servers[0].Tools[:1] // a tool is removed
	checkSync(t, path, dirs[1], servers, "one")
	checkSync(t, path, dirs[0], servers)
	servers[0].Tools[0].Input = []byte(`{"properties":{"x":{"type":"integer"}}}`)
	checkSync(t, path, dirs[0], servers, "one")
	servers[1].Prompts, servers[1].Resources = false, true
	checkSync(t, path, dirs[1], servers, "two")
	servers[1].Description = "New description."
	checkSync(t, path, dirs[0], servers, "two")
	checkSync(t, path, dirs[0], servers[:1], "two")
	checkSync(t, path, dirs[1], twoServers(), "one", "two")
	checkSync(t, path, dirs[0], nil, "one", "two")
}

func TestSyncKeepsUnchangedFiles(t *testing.T) {
	path, dirs := newDirs(t, 1)
	servers := twoServers()
	checkSync(t, path, dirs[0], servers, "one", "two")
	old := time.Unix(1_700_000_000, 0)
	names := []string{"two/f.py", "two/__init__.py", "two", "one/f.py", "__init__.py"}
	for _, name := range names {
		if err := os.Chtimes(filepath.Join(path, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	servers[0].Tools[1].Description = "Other description." // changes g.py, not f.py
	checkSync(t, path, dirs[0], servers, "one")
	for _, name := range names {
		fi, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		if !fi.ModTime().Equal(old) {
			t.Errorf("%s was written", name)
		}
	}
}

func TestFirstSyncRepairsDirectory(t *testing.T) {
	path, dirs := newDirs(t, 2)
	servers := twoServers()
	checkSync(t, path, dirs[0], servers, "one", "two")
	in := func(name string) string { return filepath.Join(path, name) }
	err := errors.Join(
		os.WriteFile(in("one/f.py"), []byte("import os"), 0o600),
		os.Remove(in("one/g.py")),
		os.Mkdir(in("one/g.py"), 0o700),
		os.WriteFile(in("one/.new-half"), nil, 0o600),
		os.Mkdir(in(".new-two"), 0o700),
		os.WriteFile(in(".new-two/f.py"), nil, 0o600),
		os.Mkdir(in("three"), 0o700),
		os.WriteFile(in("stray"), nil, 0o600),
		os.Truncate(in("two/__init__.py"), 0),
		os.Remove(in("__init__.py")),
	)
	if err != nil {
		t.Fatal(err)
	}
	checkSync(t, path, dirs[1], servers, "one", "three", "two")
	for _, name := range []string{"__init__.py", "one/f.py", "two/__init__.py"} {
		if fi, err := os.Stat(in(name)); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
}

// TestSyncCompletesInterruptedUpdate simulates a process that was killed after it
// removed a stamp and before it wrote all files.
func TestSyncCompletesInterruptedUpdate(t *testing.T) {
	path, dirs := newDirs(t, 1)
	servers := twoServers()
	checkSync(t, path, dirs[0], servers, "one", "two")
	name := filepath.Join(path, "one", "__init__.py")
	content, err := os.ReadFile(name)
	i := bytes.LastIndex(content, []byte("# made from "))
	if err != nil || i < 0 {
		t.Fatal(err, i)
	}
	err = errors.Join(os.WriteFile(name, content[:i], 0o644), os.WriteFile(filepath.Join(path, "one", "f.py"), []byte("half"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	checkSync(t, path, dirs[0], servers, "one")
}

func TestSyncRemovesSymlinks(t *testing.T) {
	path, dirs := newDirs(t, 1)
	outside := t.TempDir()
	secret := filepath.Join(outside, "f.py")
	in := func(name string) string { return filepath.Join(path, name) }
	err := errors.Join(
		os.WriteFile(secret, []byte("keep"), 0o600),
		os.Symlink(outside, in("one")),
		os.Mkdir(in("two"), 0o755),
		os.Symlink(secret, in("two/f.py")),
		os.Symlink(outside, in(".new-one")),
		os.Symlink(secret, in("two/.new-two-f.py")),
		os.Symlink(secret, in("__init__.py")),
		os.Symlink(outside, in("other")),
	)
	if err != nil {
		t.Skipf("symbolic links are not supported: %v", err)
	}
	checkSync(t, path, dirs[0], twoServers(), "one", "two")
	if got := onDisk(t, outside); !cmp.Equal(got, map[string]string{"f.py": "keep"}) {
		t.Errorf("the linked directory contains %q", got)
	}
}

func TestSyncSanitizesModuleNames(t *testing.T) {
	path, dirs := newDirs(t, 1)
	s := codegen.Server{Name: "x", Module: "../../evil"}
	if _, err := dirs[0].Sync(t.Context(), []codegen.Server{s}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "______evil", "__init__.py")); err == nil {
		t.Error("the module name ______evil is not valid")
	}
	if names, _ := filepath.Glob(filepath.Join(path, "*evil")); len(names) != 1 {
		t.Errorf("%q", names)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 3 {
		t.Errorf("beside the directory, its lock file and its record: %v, %v", entries, err)
	}
}

// TestConcurrentSyncsDoNotMixFiles checks that the directory has the files of one Sync.
func TestConcurrentSyncsDoNotMixFiles(t *testing.T) {
	path, dirs := newDirs(t, 4)
	states := [][]codegen.Server{twoServers(), twoServers()[:1], diverse(t)}
	var wg sync.WaitGroup
	for i, d := range dirs {
		wg.Go(func() {
			for round := range 12 {
				if _, err := d.Sync(t.Context(), states[(i+round)%len(states)]); err != nil {
					t.Errorf("Dir %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	for _, state := range states {
		if cmp.Equal(tree(state), onDisk(t, path)) {
			return
		}
	}
	t.Error("the directory has the files of no single Sync")
}

func TestSyncReportsUnusableDirectory(t *testing.T) {
	base := t.TempDir()
	d := codegen.NewDir(filepath.Join(base, "none"), filepath.Join(base, "lock"))
	if _, err := d.Sync(t.Context(), twoServers()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("error %v has kind %v, want Unavailable", err, fault.KindOf(err))
	}
}

func TestSyncReportsCancellation(t *testing.T) {
	_, dirs := newDirs(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dirs[0].Sync(ctx, twoServers()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
