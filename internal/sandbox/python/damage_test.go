//go:build linux && (amd64 || arm64)

package python_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// damage is one way to change an install. Its functions get the install's Dir.
type damage struct {
	name     string
	do, undo func(t *testing.T, dir string)
	reported []string
}

const jsonSource, jsonPyc = "lib/python3.14/json/__init__.py", "lib/python3.14/json/__pycache__/__init__.cpython-314.pyc"

var damages = []damage{
	edited("source edited, same size and time", jsonSource, flipped),
	edited("pyc edited, same size and time", jsonPyc, flipped),
	edited("executable edited", "bin/python3.14", flipped),
	edited("our own file edited", "sandpiper/__init__.py", flipped),
	edited("file cut to nothing", jsonPyc, func([]byte) []byte { return nil }),
	edited("file made longer", jsonSource, func(b []byte) []byte { return append(b, "import evil\n"...) }),
	removed("file removed", jsonPyc),
	removed("link removed", "bin/python3"),
	planted("module", "lib/python3.14/evil.py"),
	planted("pyc of nothing", "lib/python3.14/__pycache__/evil.cpython-314.pyc"),
	planted("package that shadows a module", "lib/python3.14/csv/__init__.py", "lib/python3.14/csv"),
	planted("path file", "lib/python3.14/site-packages/evil.pth", "lib/python3.14/site-packages"),
	planted("zip that comes first on sys.path", "lib/python314.zip"),
	planted("library that comes before the host's", "lib/libm.so.6"),
	planted("virtual environment", "pyvenv.cfg"),
	planted("path configuration", "bin/python3.14._pth"),
	{
		name:     "link turned elsewhere",
		do:       func(t *testing.T, dir string) { relink(t, dir, "bin/python", "/bin/sh") },
		undo:     func(t *testing.T, dir string) { relink(t, dir, "bin/python", "python3.14") },
		reported: []string{"bin/python"},
	},
	{
		name: "file replaced by a link to the same bytes",
		do: func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, jsonSource), filepath.Join(dir, "../saved")))
			relink(t, dir, jsonSource, filepath.Join(dir, "../saved"))
		},
		undo: func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "../saved"), filepath.Join(dir, jsonSource)))
		},
		reported: []string{jsonSource},
	},
	modeChanged("file writable for all", jsonSource, 0o666, 0o444),
	modeChanged("directory writable for all", "lib/python3.14/json", 0o777, 0o755),
	modeChanged("root directory writable for all", ".", 0o777, 0o755),
	modeChanged("set-uid executable", "bin/python3.14", 0o555|os.ModeSetuid, 0o555),
	edited("manifest edited", "../manifest.json", flipped),
	removed("manifest removed", "../manifest.json"),
	removed("stamp removed", "../stamp"),
	edited("stamp emptied", "../stamp", func([]byte) []byte { return nil }),
}

func flipped(b []byte) []byte {
	b[len(b)/2] ^= 1
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

// rewrite changes a file's content in place and puts its mode and time back.
func rewrite(t *testing.T, name string, content []byte) {
	t.Helper()
	info, err := os.Stat(name)
	must(t, err)
	must(t, os.Chmod(name, 0o644))
	must(t, os.WriteFile(name, content, 0o644))
	must(t, os.Chmod(name, info.Mode()))
	must(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
}

func relink(t *testing.T, dir, name, target string) {
	t.Helper()
	os.Remove(filepath.Join(dir, name))
	must(t, os.Symlink(target, filepath.Join(dir, name)))
}

func edited(name, file string, change func([]byte) []byte) damage {
	var saved []byte
	return damage{name: name, reported: []string{file},
		do: func(t *testing.T, dir string) {
			saved = read(t, filepath.Join(dir, file))
			rewrite(t, filepath.Join(dir, file), change(bytes.Clone(saved)))
		},
		undo: func(t *testing.T, dir string) { rewrite(t, filepath.Join(dir, file), saved) },
	}
}

func removed(name, file string) damage {
	return damage{name: name, reported: []string{file},
		do: func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, file), filepath.Join(dir, "../saved")))
		},
		undo: func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "../saved"), filepath.Join(dir, file)))
		},
	}
}

func planted(what, file string, newDirs ...string) damage {
	return damage{name: what + " planted", reported: append(newDirs, file),
		do: func(t *testing.T, dir string) {
			for _, d := range newDirs {
				must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
			}
			must(t, os.WriteFile(filepath.Join(dir, file), []byte("evil"), 0o444))
		},
		undo: func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, append(newDirs, file)[0]))) },
	}
}

func modeChanged(name, file string, bad, good os.FileMode) damage {
	return damage{name: name, reported: []string{file},
		do:   func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, file), bad)) },
		undo: func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, file), good)) },
	}
}

// sound reports whether Install takes the install in dir as it is: the first
// sign of progress, which means that it is being replaced, is cancelled.
func sound(t *testing.T, dir string) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	i, err := python.Install(ctx, python.Config{Dir: dir, Overlay: overlay, Progress: func(string, int, int) { cancel() }})
	if err == nil {
		return i.Close() == nil
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return false
}

func TestInstallFindsDamage(t *testing.T) {
	dir := t.TempDir()
	i := install(t, python.Config{Dir: dir, Overlay: overlay})
	for n, d := range damages {
		if n%4 != 0 && !longtest.Enabled() {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			d.do(t, i.Dir())
			if sound(t, dir) {
				t.Error("the damage was not found")
			}
			d.undo(t, i.Dir())
			if !sound(t, dir) {
				t.Error("the undamaged install was refused")
			}
		})
	}
}

// The stamp detects an edited file whose hash in the manifest was edited too.
func TestInstallFindsModifiedManifest(t *testing.T) {
	dir := t.TempDir()
	i := install(t, python.Config{Dir: dir, Overlay: overlay})
	name, manifest := filepath.Join(i.Dir(), jsonPyc), filepath.Join(i.Dir(), "../manifest.json")
	before := read(t, name)
	after := flipped(bytes.Clone(before))
	sum := func(b []byte) []byte {
		s := sha256.Sum256(b)
		return []byte(hex.EncodeToString(s[:]))
	}
	fitting := bytes.Replace(read(t, manifest), sum(before), sum(after), 1)
	if bytes.Equal(fitting, read(t, manifest)) {
		t.Fatal("the manifest has no hash of the file")
	}
	rewrite(t, name, after)
	rewrite(t, manifest, fitting)
	if sound(t, dir) {
		t.Error("the damage was not found")
	}
}

func TestInstallReplacesDamagedTree(t *testing.T) {
	dir := t.TempDir()
	running := install(t, python.Config{Dir: dir, Overlay: overlay})
	mounted, err := os.OpenRoot(running.Dir()) // as a mount of a sandbox
	must(t, err)
	defer mounted.Close()

	var want []string
	for _, name := range []string{"executable edited", "link removed", "path file planted", "zip that comes first on sys.path planted"} {
		k := slices.IndexFunc(damages, func(d damage) bool { return d.name == name })
		damages[k].do(t, running.Dir())
		want = append(want, damages[k].reported...)
	}
	slices.Sort(want)

	var log bytes.Buffer
	repaired := install(t, python.Config{Dir: dir, Overlay: overlay, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if diff := cmp.Diff(want, repaired.Repaired()); diff != "" {
		t.Errorf("repaired (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log: %q", log.String())
	}
	if got := run(t, repaired.Dir(), "-c", "import json; print('ok')"); got != "ok\n" || repaired.Dir() != running.Dir() {
		t.Errorf("%s in %s says %q", repaired.Dir(), running.Dir(), got)
	}
	if _, err := mounted.Stat("lib/python314.zip"); err != nil {
		t.Errorf("the tree in use was changed: %v", err)
	}
	again := install(t, python.Config{Dir: dir, Overlay: overlay})
	if again.Repaired() != nil {
		t.Errorf("repaired again: %v", again.Repaired())
	}
}

func TestRetiredTreeIsRemovedWhenUnused(t *testing.T) {
	longtest.SkipSlow(t)
	dir := t.TempDir()
	running := install(t, python.Config{Dir: dir})
	name := filepath.Base(filepath.Dir(running.Dir()))
	damageInstall := func() { must(t, os.Remove(filepath.Join(running.Dir(), jsonPyc))) }

	damageInstall()
	second := install(t, python.Config{Dir: dir})
	if got := entries(t, dir); len(got) != 2 || got[1] != name {
		t.Errorf("while it is in use there are %v", got)
	}
	must(t, running.Close())
	must(t, second.Close())
	damageInstall()
	install(t, python.Config{Dir: dir})
	if got := entries(t, dir); len(got) != 1 || got[0] != name {
		t.Errorf("later there are %v", got)
	}
}
