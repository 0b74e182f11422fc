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

const before = "{\n  // mine\n  \"mcpServers\": {\n    \"x\": {\"command\": \"x\", \"env\": {\"K\": \"secret\"}},\n    \"y\": {\"command\": \"y\"}\n  },\n  \"count\": 1\n}\n"

// connected is a person with a file of Cursor's into which we were put in the
// place of x.
func connected(t *testing.T) (path string, r clientconfig.Record, backup string) {
	t.Helper()
	env := person(t, "linux", map[string]string{".cursor/mcp.json": before})
	path = filepath.Join(env.Home, ".cursor", "mcp.json")
	r = clientconfig.Record{Path: filepath.Join(env.Home, "config", "init.json")}
	w := connect(t, env)
	backup, err := r.Do(w)
	if err != nil {
		t.Fatal(err)
	}
	return path, r, backup
}

func connect(t *testing.T, env clientconfig.Env) clientconfig.Write {
	t.Helper()
	c, _ := clientconfig.Named("cursor")
	f, _ := clientconfig.Target(env, c, false)
	old, _ := os.ReadFile(f.Path)
	e := clientconfig.Edit{Put: map[string][]byte{"sandpiper": f.Entry("sandpiper", clientconfig.Launch{Command: "sandpiper", Args: []string{"serve"}})}, Drop: []string{"x"}}
	text, err := f.Edit(old, e)
	if err != nil {
		t.Fatal(err)
	}
	return clientconfig.Write{Path: f.Path, Old: old, New: text, Mode: 0o600, Edits: []clientconfig.Edited{{File: f, Edit: e}}}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// undo undoes, and returns how or why not, of the only change.
func undo(t *testing.T, r clientconfig.Record) string {
	t.Helper()
	all, err := r.Undo()
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0].How + "|" + all[0].Left
}

func TestUndoRestoresExactly(t *testing.T) {
	path, r, backup := connected(t)
	if read(t, backup) != before || !strings.Contains(read(t, path), "sandpiper") || strings.Contains(read(t, path), "secret") {
		t.Fatalf("changed to %s, copied %s", read(t, path), read(t, backup))
	}
	if strings.Contains(read(t, r.Path), "secret") {
		t.Error("the record holds a secret")
	}
	if got := undo(t, r); got != "restored as it was|" || read(t, path) != before {
		t.Errorf("%s: %s", got, read(t, path))
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if d := cmp.Diff([]string{path}, left); d != "" {
		t.Errorf("left behind: %s", d)
	}
	if all, err := r.Undo(); len(all) != 0 || err != nil {
		t.Errorf("once more: %+v, %v", all, err)
	}
}

func TestUndoTakesBackOnlyOurPartOfWhatOthersWroteSince(t *testing.T) {
	path, r, _ := connected(t)
	write(t, path, strings.Replace(read(t, path), `"count": 1`, `"count": 2`, 1))
	if got := undo(t, r); !strings.HasPrefix(got, "was written by another program since") {
		t.Error(got)
	}
	want := "{\n  // mine\n  \"mcpServers\": {\n    \"y\": {\"command\": \"y\"},\n    \"x\": {\"command\": \"x\", \"env\": {\"K\": \"secret\"}}\n  },\n  \"count\": 2\n}\n"
	if d := cmp.Diff(want, read(t, path)); d != "" {
		t.Error(d)
	}
}

func TestUndoLeavesWhatItCannotTakeBack(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(path, backup string)
		want  string
	}{
		"our entry was edited": {func(path, _ string) {
			text, _ := os.ReadFile(path)
			os.WriteFile(path, []byte(strings.Replace(string(text), `"serve"`, `"serve", "--profile", "lean"`, 1)), 0o600)
		}, "|it was edited since, and sandpiper in it too; take that out by hand"},
		"the file was removed":    {func(path, _ string) { os.Remove(path) }, "|it was removed since; the copy is "},
		"the copy was removed":    {func(_, backup string) { os.Remove(backup) }, "|its copy "},
		"the copy was changed":    {func(_, backup string) { os.WriteFile(backup, []byte("{}"), 0o600) }, "|its copy "},
		"the file is no JSON":     {func(path, _ string) { os.WriteFile(path, []byte("{"), 0o600) }, "|"},
		"the file is a directory": {func(path, _ string) { os.Remove(path); os.Mkdir(path, 0o700) }, "|it cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			path, r, backup := connected(t)
			tc.spoil(path, backup)
			stood, _ := os.ReadFile(path)
			if got := undo(t, r); !strings.HasPrefix(got, tc.want) || strings.HasSuffix(got, "|") {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if now, _ := os.ReadFile(path); string(now) != string(stood) {
				t.Errorf("the file became %s", now)
			}
			undo(t, r) // it stays in the record
		})
	}
}

func TestAFileThatChangesMeanwhileIsLeftAlone(t *testing.T) {
	env := person(t, "linux", map[string]string{".cursor/mcp.json": before})
	r := clientconfig.Record{Path: filepath.Join(env.Home, "config", "init.json")}
	w := connect(t, env)
	other := strings.Replace(before, "1", "2", 1)
	write(t, w.Path, other)
	if _, err := r.Do(w); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "meanwhile") {
		t.Errorf("%v", err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(w.Path), "*"))
	if read(t, w.Path) != other || len(left) != 1 {
		t.Errorf("%s, %q", read(t, w.Path), left)
	}
	if all, err := r.Undo(); len(all) != 0 || err != nil {
		t.Errorf("it was recorded: %+v, %v", all, err)
	}
	w.Path, w.Old = filepath.Join(env.Home, "appeared"), nil
	write(t, w.Path, "theirs")
	if _, err := r.Do(w); err == nil || read(t, w.Path) != "theirs" {
		t.Errorf("a file that appeared was replaced: %v", err)
	}
}

func TestAChangeThatWasRecordedAndNotMadeIsNothingToUndo(t *testing.T) {
	path, r, _ := connected(t)
	write(t, path, before) // as after a kill between the two
	if got := undo(t, r); got != "is as it was already|" || read(t, path) != before {
		t.Error(got)
	}
}

func TestModesAndLinksStay(t *testing.T) {
	env := person(t, "linux", map[string]string{"dotfiles/mcp.json": before, ".cursor/x": ""})
	target, link := filepath.Join(env.Home, "dotfiles/mcp.json"), filepath.Join(env.Home, ".cursor/mcp.json")
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	r := clientconfig.Record{Path: filepath.Join(env.Home, "config", "init.json")}
	backup, err := r.Do(connect(t, env))
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		info, err := os.Lstat(link)
		real, err2 := os.Stat(target)
		if err != nil || err2 != nil || info.Mode()&os.ModeSymlink == 0 || real.Mode().Perm() != 0o640 {
			t.Errorf("%s: link %v, file %v", when, info.Mode(), real.Mode())
		}
	}
	check("applied")
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(backup) != filepath.Dir(link) {
		t.Errorf("copy %s: %v, %v", backup, info, err)
	}
	undo(t, r)
	check("undone")
	if read(t, target) != before {
		t.Error(read(t, target))
	}
}

func TestWhatMayNotBeWrittenIsRefused(t *testing.T) {
	env := person(t, "linux", map[string]string{"ro": "x", "dir/x": ""})
	r := clientconfig.Record{Path: filepath.Join(env.Home, "config", "init.json")}
	at := func(name string) string { return filepath.Join(env.Home, name) }
	if err := os.Chmod(at("ro"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("nowhere"), at("dangling")); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]clientconfig.Write{
		"read-only": {Path: at("ro"), Old: []byte("x"), New: []byte("y")},
		"directory": {Path: at("dir"), New: []byte("y")},
		"dangling":  {Path: at("dangling"), New: []byte("y")},
		"below":     {Path: at("ro") + "/x", New: []byte("y")},
	} {
		if _, err := r.Do(w); err == nil || fault.Message(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(t, r.Path, "{")
	if _, err := r.Undo(); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("a record that cannot be read: %v", err)
	}
}

func TestOfTwoAtOnceOneWritesOrSaysWhyNot(t *testing.T) {
	env := person(t, "linux", nil)
	r := clientconfig.Record{Path: filepath.Join(env.Home, "config", "init.json")}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = r.Do(clientconfig.Write{Path: filepath.Join(env.Home, "f"), New: []byte{byte('a' + i)}, Mode: 0o600})
		})
	}
	wg.Wait()
	done := 0
	for i, err := range errs {
		if err == nil {
			done++
			if read(t, filepath.Join(env.Home, "f")) != string(rune('a'+i)) {
				t.Error("the one that wrote was overwritten")
			}
		} else if fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d wrote", done)
	}
	if all, err := r.Undo(); len(all) != 1 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
}
