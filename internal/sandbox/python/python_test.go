//go:build linux && (amd64 || arm64)

package python_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

func TestMain(m *testing.M) {
	python.InstallPart()
	if dir := os.Getenv(otherDir); dir != "" {
		os.Exit(otherProcess(dir))
	}
	syscall.Umask(0o077) // the modes of an install do not depend on it
	code := m.Run()
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

var overlay = fstest.MapFS{
	"__init__.py": {Data: []byte("WORD = 'overlay'\n")},
	"sub/deep.py": {Data: []byte("def fail():\n    return 1 / 0\n")},
	"sub/data":    {Data: []byte("not Python")},
	"sub/tool-1.0-py3-none-any.whl": {Data: wheel(map[string]string{
		"tool/__init__.py":            "from tool.inner import WORD\n",
		"tool/inner.py":               "WORD = 'wheel'\n",
		"tool/py.typed":               "",
		"tool-1.0.dist-info/extra.py": "not Python",
	})},
}

func wheel(files map[string]string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, _ := z.Create(name) // b does not fail
		io.WriteString(w, files[name])
	}
	z.Close()
	return b.Bytes()
}

var shared struct {
	once sync.Once
	dir  string
	*python.Installation
}

// sharedInstall is one whole install for all tests that do not change it.
func sharedInstall(tb testing.TB) *python.Installation {
	tb.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "python-test-")
		if err != nil {
			tb.Fatal(err)
		}
		shared.dir = dir
		python.InstallWhole()
		defer python.InstallPart()
		shared.Installation, err = python.Install(context.Background(), python.Config{Dir: dir, Overlay: overlay})
		if err != nil {
			tb.Fatal(err)
		}
	})
	if shared.Installation == nil {
		tb.Fatal("there is no shared install")
	}
	return shared.Installation
}

// install returns an installation that is closed when the test ends.
func install(tb testing.TB, cfg python.Config) *python.Installation {
	tb.Helper()
	i, err := python.Install(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { i.Close() })
	return i
}

// run runs code in an installation with an empty environment.
func run(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), filepath.Join(dir, "bin/python3.14"), append([]string{"-I", "-B"}, args...)...)
	cmd.Env, cmd.Dir = []string{"HOME=/nonexistent"}, tb.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("python %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// wantFault fails unless err is of kind and its message and hint contain words.
func wantFault(t *testing.T, err error, kind fault.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if got := fault.KindOf(err); got != kind {
		t.Errorf("%v is %v, want %v", err, got, kind)
	}
	text := fault.Message(err) + " / " + fault.Hint(err)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not contain %q", text, w)
		}
	}
}

// entries lists a directory, without lock files.
func entries(tb testing.TB, dir string) []string {
	tb.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), "lock") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestVersionMatchesEmbedded(t *testing.T) {
	i := sharedInstall(t)
	got := strings.TrimSpace(run(t, i.Dir(), "-c", "import platform; print(platform.python_version())"))
	if got != i.Version() {
		t.Errorf("installed %s, Version returns %s", got, i.Version())
	}
}

func TestInstallSize(t *testing.T) {
	var size int64
	err := filepath.WalkDir(sharedInstall(t).Dir(), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		if base := d.Name(); strings.HasPrefix(base, "libpython") || strings.HasPrefix(base, "_test") {
			t.Errorf("%s was not left out", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if size < 40<<20 || size > 57<<20 {
		t.Errorf("the install has %d bytes", size)
	}
}

// A sandbox runs with another uid and must be able to read the install.
func TestInstallIsReadOnly(t *testing.T) {
	err := filepath.WalkDir(sharedInstall(t).Dir(), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o444)
		switch {
		case d.IsDir():
			want = fs.ModeDir | 0o755
		case d.Type() == fs.ModeSymlink:
			return err
		case strings.HasSuffix(name, "bin/python3.14"):
			want = 0o555
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOverlayIsInstalledAndCompiled(t *testing.T) {
	dir := sharedInstall(t).Dir()
	const code = `
import sys, traceback
sys.path.append(sys.prefix)
import sandpiper, sandpiper.sub.deep as deep, sandpiper.sub.tool as tool
print(sandpiper.WORD, tool.WORD, tool.__name__, deep.__cached__, open(sys.prefix + "/sandpiper/sub/data").read())
`
	got := run(t, dir, "-c", code)
	want := "overlay wheel sandpiper.sub.tool " + dir + "/sandpiper/sub/__pycache__/deep.cpython-314.pyc not Python\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestModulesLoadFromPyc(t *testing.T) {
	dir := sharedInstall(t).Dir()
	const code = `
import sys, importlib._bootstrap_external as b
def no(self, *args, **kwargs): raise SystemExit("compiled " + str(args[-1]))
b.SourceLoader.source_to_code = no
sys.path.append(sys.prefix)
import json, asyncio, sqlite3, email.message, sandpiper.sub.deep
print("ok")
`
	if got := run(t, dir, "-c", code); got != "ok\n" {
		t.Error(got)
	}
	missing := 0
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
		if base, isSource := strings.CutSuffix(name, ".py"); isSource {
			pyc := filepath.Join(filepath.Dir(name), "__pycache__", filepath.Base(base)+".cpython-314.pyc")
			data, err := os.ReadFile(pyc)
			if err != nil || len(data) < 16 || data[4] != 1 {
				missing++
				t.Logf("%s: not an unchecked hash pyc (%v)", pyc, err)
			}
		}
		return nil
	})
	if missing > 0 {
		t.Errorf("%d sources have no unchecked pyc", missing)
	}
}

// absent lists the modules of the standard library that cannot be imported.
var absent = map[string]string{
	"_tkinter": "graphics", "tkinter": "graphics", "turtle": "graphics", "turtledemo": "graphics", "idlelib": "graphics",
	"ensurepip": "not in the distribution: packages come from the operator", "pydoc_data": "not in the distribution: help texts",
	"_gdbm":       "not in the distribution: GPL",
	"_overlapped": "Windows", "_winapi": "Windows", "_wmi": "Windows", "winreg": "Windows", "winsound": "Windows",
	"msvcrt": "Windows", "nt": "Windows", "_scproxy": "macOS", "_ios_support": "iOS",
}

func TestStandardLibraryImports(t *testing.T) {
	const code = `
import sys, importlib, webbrowser
webbrowser.open = lambda *a, **k: True  # import antigravity
for name in sorted(sys.stdlib_module_names):
    try:
        importlib.import_module(name)
    except BaseException as e:
        print("absent", name, type(e).__name__, e)
`
	var got []string
	for line := range strings.Lines(run(t, sharedInstall(t).Dir(), "-W", "ignore", "-c", code)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "absent" {
			got = append(got, f[1])
			if absent[f[1]] == "" {
				t.Error(line)
			}
		}
	}
	for name := range absent {
		if !slices.Contains(got, name) {
			t.Errorf("%s can be imported: take it off the list", name)
		}
	}
}

func TestSystemLibrariesAreComplete(t *testing.T) {
	i := sharedInstall(t)
	libs, err := i.SystemLibraries()
	if err != nil {
		t.Fatal(err)
	}
	const code = `
import sqlite3, ssl, ctypes, decimal, lzma, dbm.ndbm, curses, zoneinfo, threading, asyncio, faulthandler, pwd
pwd.getpwuid(0)
faulthandler.enable()
t = threading.Thread(target=len, args=("",)); t.start(); t.join()
for line in open("/proc/self/maps"):
    if ".so" in line: print(line.split()[-1])
`
	loaded := strings.Fields(run(t, i.Dir(), "-c", code))
	if len(loaded) == 0 {
		t.Fatal("no libraries are mapped")
	}
	for _, lib := range loaded {
		if !strings.HasPrefix(lib, i.Dir()) && libs[lib] == "" {
			t.Errorf("Python loads %s, which is not in the list %v", lib, libs)
		}
	}
	for from, to := range libs {
		if real, err := filepath.EvalSymlinks(to); err != nil || real != from {
			t.Errorf("%s is to be shown as %s, which is %s here (%v)", from, to, real, err)
		}
	}
}

func TestInstallIsReproducible(t *testing.T) {
	longtest.SkipSlow(t)
	a := sharedInstall(t)
	python.InstallWhole()
	defer python.InstallPart()
	b := install(t, python.Config{Dir: t.TempDir(), Overlay: overlay})
	read := func(i *python.Installation) string {
		data, err := os.ReadFile(filepath.Join(i.Dir(), "../manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if read(a) != read(b) {
		t.Error("the manifests differ")
	}
}

func TestProgress(t *testing.T) {
	dir := t.TempDir()
	seen, totals := map[string]int{}, map[string]int{}
	cfg := python.Config{Dir: dir, Progress: func(stage string, done, total int) {
		seen[stage]++
		totals[stage] = total
		if seen[stage] != done || done > total {
			t.Errorf("%s: %d of %d came as call %d", stage, done, total, seen[stage])
		}
	}}
	install(t, cfg)
	if diff := cmp.Diff(totals, seen); diff != "" || seen["extract"] < 100 || seen["compile"] < 100 {
		t.Errorf("progress ended before its total (-total +seen):\n%s", diff)
	}
	clear(seen)
	install(t, cfg)
	if len(seen) > 0 {
		t.Errorf("a verified install reports progress: %v", seen)
	}
}

func TestOverlayChangesInstall(t *testing.T) {
	dir := t.TempDir()
	a := install(t, python.Config{Dir: dir, Overlay: fstest.MapFS{"a.py": {Data: []byte("A = 1\n")}}})
	b := install(t, python.Config{Dir: dir, Overlay: fstest.MapFS{"a.py": {Data: []byte("A = 2\n")}}})
	if a.Dir() == b.Dir() {
		t.Errorf("both are in %s", a.Dir())
	}
}

func TestInstallRejectsInvalidOverlay(t *testing.T) {
	for name, data := range map[string]string{"bad.py": "def (:\n", "bad.whl": "no archive"} {
		dir := t.TempDir()
		_, err := python.Install(t.Context(), python.Config{Dir: dir, Overlay: fstest.MapFS{name: {Data: []byte(data)}}})
		wantFault(t, err, fault.Internal)
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%v does not name %s", err, name)
		}
		if left := entries(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}

func TestCancelledInstallLeavesNothing(t *testing.T) {
	for _, stage := range []string{"extract", "compile"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := python.Install(ctx, python.Config{Dir: dir, Progress: func(s string, done, _ int) {
			if s == stage && done == 50 {
				cancel()
			}
		}})
		if err == nil || ctx.Err() == nil {
			t.Errorf("%s: %v, context %v", stage, err, ctx.Err())
		}
		if left := entries(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", stage, left)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	python.InstallWhole()
	defer python.InstallPart()
	sharedInstall(b)
	for b.Loop() {
		i, err := python.Install(b.Context(), python.Config{Dir: shared.dir, Overlay: overlay})
		if err != nil {
			b.Fatal(err)
		}
		i.Close()
	}
}

func BenchmarkHashEverything(b *testing.B) {
	python.InstallWhole()
	defer python.InstallPart()
	i := sharedInstall(b)
	for b.Loop() {
		os.Chtimes(filepath.Join(i.Dir(), "bin/python3.14"), time.Now(), time.Now())
		j, err := python.Install(b.Context(), python.Config{Dir: shared.dir, Overlay: overlay})
		if err != nil {
			b.Fatal(err)
		}
		j.Close()
	}
}

func BenchmarkSystemLibraries(b *testing.B) {
	i := sharedInstall(b)
	for b.Loop() {
		if _, err := i.SystemLibraries(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInstall(b *testing.B) {
	python.InstallWhole()
	defer python.InstallPart()
	for b.Loop() {
		dir := b.TempDir()
		i, err := python.Install(b.Context(), python.Config{Dir: dir, Overlay: overlay})
		if err != nil {
			b.Fatal(err)
		}
		i.Close()
		b.StopTimer()
		os.RemoveAll(dir)
		b.StartTimer()
	}
}
