package clientconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

const original = "{\n  // mine\n  \"mcpServers\": {\n    \"x\": {\"command\": \"x\", \"env\": {\"K\": \"secret\"}},\n    \"y\": {\"command\": \"y\"}\n  },\n  \"count\": 1\n}\n"

// newRecord returns a record in a home directory.
func newRecord(env clientconfig.Env) clientconfig.Record {
	return clientconfig.Record{Dir: filepath.Join(env.Home, "config")}
}

// edited returns a file of Cursor in which Sandpiper was added and server x
// dropped, the record of that and the path of the copy.
func edited(t *testing.T) (path string, r clientconfig.Record, saved string) {
	t.Helper()
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": original})
	r = newRecord(env)
	saved, err := r.Write(edit(t, env))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(env.Home, ".cursor", "mcp.json"), r, saved
}

func edit(t *testing.T, env clientconfig.Env) clientconfig.Change {
	t.Helper()
	c, _ := clientconfig.ClientByID("cursor")
	f, _ := clientconfig.Target(env, c, false)
	old, _ := os.ReadFile(f.Path)
	text, err := f.Edit(old, clientconfig.Edit{
		Put:  map[string]clientconfig.Launch{"sandpiper": {Command: "sandpiper", Args: []string{"serve"}}},
		Drop: []string{"x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return clientconfig.Change{Path: f.Path, Old: old, New: text, Mode: 0o600}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// undo undoes the only change and returns the fields of its result.
func undo(t *testing.T, r clientconfig.Record) string {
	t.Helper()
	all, err := r.Undo(keepNone)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0].Done + "|" + all[0].Left
}

func TestUndoRestoresUnchangedFileExactly(t *testing.T) {
	path, r, saved := edited(t)
	if read(t, saved) != original || !strings.Contains(read(t, path), "sandpiper") || strings.Contains(read(t, path), "secret") {
		t.Fatalf("changed to %s, copied %s", read(t, path), read(t, saved))
	}
	if strings.Contains(read(t, filepath.Join(r.Dir, "init.json")), "secret") {
		t.Error("the list of changed files contains a secret")
	}
	if got := undo(t, r); got != "restored|" || read(t, path) != original {
		t.Errorf("%s: %s", got, read(t, path))
	}
	for dir, want := range map[string]string{filepath.Dir(path): path, r.Dir: filepath.Join(r.Dir, "init.json.lock")} {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if d := cmp.Diff([]string{want}, left); d != "" {
			t.Errorf("files after undo: %s", d)
		}
	}
	if all, err := r.Undo(keepNone); len(all) != 0 || err != nil {
		t.Errorf("second undo: %+v, %v", all, err)
	}
}

func TestUndoRevertsOnlyOurChangeOfChangedFile(t *testing.T) {
	path, r, _ := edited(t)
	write(t, path, strings.Replace(read(t, path), `"count": 1`, `"count": 2`, 1))
	if got := undo(t, r); got != "was changed since; only the changes of sandpiper init were reverted|" {
		t.Error(got)
	}
	if d := cmp.Diff(strings.Replace(original, `"count": 1`, `"count": 2`, 1), read(t, path)); d != "" {
		t.Error(d)
	}
}

func TestUndoLeavesFileThatCannotBeReverted(t *testing.T) {
	const conflict = "|it was changed since; apply "
	replace := func(old, new string) func(path, saved string) {
		return func(path, _ string) {
			text, _ := os.ReadFile(path)
			os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o600)
		}
	}
	for name, tc := range map[string]struct {
		change func(path, saved string)
		want   string
	}{
		"our entry was changed":              {replace(`"serve"`, `"serve", "--profile", "lean"`), conflict},
		"an entry was added after our entry": {replace("    }\n  },", "    },\n    \"z\": {}\n  },"), conflict},
		"the file was removed":               {func(path, _ string) { os.Remove(path) }, "|it was removed since; its original is "},
		"the copy was removed":               {func(_, saved string) { os.Remove(saved) }, "|its copy "},
		"the copy was changed":               {func(_, saved string) { os.WriteFile(saved, []byte("{}"), 0o600) }, "|its copy "},
		"the file is not JSON":               {func(path, _ string) { os.WriteFile(path, []byte("{"), 0o600) }, conflict},
		"the result is not JSON":             {replace(`"count": 1`, `"count": `), conflict},
		"the file is a directory":            {func(path, _ string) { os.Remove(path); os.Mkdir(path, 0o700) }, "|it cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			path, r, saved := edited(t)
			tc.change(path, saved)
			changed, _ := os.ReadFile(path)
			got := undo(t, r)
			if !strings.HasPrefix(got, tc.want) || strings.HasSuffix(got, "|") {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if now, _ := os.ReadFile(path); string(now) != string(changed) {
				t.Errorf("the file became %s", now)
			}
			if file, ok := strings.CutPrefix(got, conflict); ok {
				diff := read(t, strings.TrimSuffix(file, " by hand"))
				if !strings.Contains(diff, `+    "x": {"command": "x"`) || !strings.Contains(diff, `-    "sandpiper": {`) {
					t.Errorf("the diff to apply by hand is %s", diff)
				}
			}
			undo(t, r) // it is still in the list
		})
	}
}

func TestWriteLeavesFileThatWasChanged(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": original})
	r := newRecord(env)
	c := edit(t, env)
	other := strings.Replace(original, "1", "2", 1)
	write(t, c.Path, other)
	if _, err := r.Write(c); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "changed by another program") {
		t.Errorf("%v", err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	copies, _ := filepath.Glob(filepath.Join(r.Dir, "init-copies", "*"))
	if read(t, c.Path) != other || len(left) != 1 || len(copies) != 0 {
		t.Errorf("%s, %q, %q", read(t, c.Path), left, copies)
	}
	if all, err := r.Undo(keepNone); len(all) != 0 || err != nil {
		t.Errorf("the failed write is in the list: %+v, %v", all, err)
	}
	c.Path, c.Old = filepath.Join(env.Home, "appeared"), nil
	write(t, c.Path, "theirs")
	if _, err := r.Write(c); err == nil || read(t, c.Path) != "theirs" {
		t.Errorf("a file created by another program was replaced: %v", err)
	}
}

func TestUndoAfterKillBeforeWrite(t *testing.T) {
	path, r, _ := edited(t)
	write(t, path, original) // the list and the copy are written first
	if got := undo(t, r); got != "was already restored|" || read(t, path) != original {
		t.Error(got)
	}
}

func TestUndoRestoresSeveralWritesOfOneFile(t *testing.T) {
	path, r, first := edited(t)
	text := read(t, path)
	second, err := r.Write(clientconfig.Change{Path: path, Old: []byte(text), New: []byte("{}")})
	if err != nil || second == first || read(t, second) != text {
		t.Fatalf("copies %s and %s, %v", first, second, err)
	}
	all, err := r.Undo(keepNone)
	if err != nil || len(all) != 2 || all[0].Left+all[1].Left != "" || read(t, path) != original {
		t.Errorf("%+v, %v: %s", all, err, read(t, path))
	}
}

func TestUndoRemovesFileThatDidNotExist(t *testing.T) {
	env := newEnv(t, "linux", nil)
	r := newRecord(env)
	path := filepath.Join(env.Home, "new", "mcp.json")
	for _, tc := range []struct{ now, want string }{
		{"{}", "removed; there was none before|"},
		{"{ }", "|it was changed since; there was none before: edit or remove it by hand"},
		{"", "was already restored|"},
	} {
		if _, err := r.Write(clientconfig.Change{Path: path, New: []byte("{}"), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		write(t, path, tc.now)
		if tc.now == "" {
			os.Remove(path)
		}
		if got := undo(t, r); got != tc.want {
			t.Errorf("undo of %q: %q, want %q", tc.now, got, tc.want)
		}
		os.Remove(path)
		if _, err := r.Undo(keepNone); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteAndUndoKeepModesAndLinks(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{"dotfiles/mcp.json": original, ".cursor/x": ""})
	target, link := filepath.Join(env.Home, "dotfiles/mcp.json"), filepath.Join(env.Home, ".cursor/mcp.json")
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	r := newRecord(env)
	saved, err := r.Write(edit(t, env))
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		info, err := os.Lstat(link)
		file, err2 := os.Stat(target)
		if err != nil || err2 != nil || info.Mode()&os.ModeSymlink == 0 || file.Mode().Perm() != 0o640 {
			t.Errorf("%s: link %v, file %v", when, info.Mode(), file.Mode())
		}
	}
	check("after the write")
	for _, path := range []string{saved, saved + ".undo.diff"} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(path, r.Dir) {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	undo(t, r)
	check("after the undo")
	if read(t, target) != original {
		t.Error(read(t, target))
	}
}

func TestWriteRefusesUnwritablePaths(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{"ro": "x", "dir/x": ""})
	r := newRecord(env)
	in := func(name string) string { return filepath.Join(env.Home, name) }
	if err := os.Chmod(in("ro"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(in("nowhere"), in("dangling")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]clientconfig.Change{
		"read-only":    {Path: in("ro"), Old: []byte("x"), New: []byte("y")},
		"directory":    {Path: in("dir"), New: []byte("y")},
		"dangling":     {Path: in("dangling"), New: []byte("y")},
		"below a file": {Path: in("ro") + "/x", New: []byte("y")},
	} {
		if _, err := r.Write(c); err == nil || fault.Message(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(t, filepath.Join(r.Dir, "init.json"), "{")
	if _, err := r.Undo(keepNone); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("unreadable list: %v", err)
	}
}

func TestConcurrentWritesOfOneFile(t *testing.T) {
	env := newEnv(t, "linux", nil)
	r := newRecord(env)
	path := filepath.Join(env.Home, "f")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = r.Write(clientconfig.Change{Path: path, New: []byte{byte('a' + i)}, Mode: 0o600})
		})
	}
	wg.Wait()
	succeeded := 0
	for i, err := range errs {
		if err == nil {
			succeeded++
			if read(t, path) != string(rune('a'+i)) {
				t.Error("a successful write was overwritten")
			}
		} else if fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d writes succeeded", succeeded)
	}
	if all, err := r.Undo(keepNone); len(all) != 1 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
}

func keepNone(string) string { return "" }

func TestUndoKeepsFileWithReason(t *testing.T) {
	env := newEnv(t, "linux", nil)
	r := newRecord(env)
	path := filepath.Join(env.Home, "kept")
	if _, err := r.Write(clientconfig.Change{Path: path, New: []byte("x"), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	all, err := r.Undo(func(string) string { return "it is in use" })
	if err != nil || len(all) != 1 || !all[0].Kept || all[0].Left != "it is in use" || read(t, path) != "x" {
		t.Fatal(all, err)
	}
	if all, err := r.Undo(keepNone); err != nil || len(all) != 1 || all[0].Kept || all[0].Left != "" {
		t.Fatal(all, err) // it stayed in the list
	}
}
