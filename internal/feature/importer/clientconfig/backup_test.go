package clientconfig_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config/rewrite"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

const (
	original = "{\n  // mine\n  \"mcpServers\": {\n    // of x\n    \"x\": {\"command\": \"x\", \"env\": {\"K\": \"secret\"}}, // after " +
		"x\n    \"y\": {\"command\": \"y\"}\n  },\n  \"count\": 1\n}\n"
	suffix   = ".sandpiper-backup"
	edited   = ".sandpiper-edited"
	reverted = "was changed since; only the changes of sandpiper init were reverted: "
)

// backupsIn returns backups with a list in a home directory.
func backupsIn(env clientconfig.Env) clientconfig.Backups {
	return clientconfig.Backups{Dir: filepath.Join(env.Home, "config"), Env: env}
}

// applied returns a file of Cursor to which Sandpiper was added and from which server x was dropped.
func applied(t *testing.T) (path string, b clientconfig.Backups) {
	t.Helper()
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": original})
	b = backupsIn(env)
	put(t, b, changeOf(t, env, "cursor", "x"))
	return filepath.Join(env.Home, ".cursor", "mcp.json"), b
}

// changeOf adds Sandpiper to a client and drops servers.
func changeOf(t *testing.T, env clientconfig.Env, client string, drop ...string) rewrite.Change {
	t.Helper()
	c, _ := clientconfig.ClientByID(client)
	f, _ := clientconfig.Target(env, c, false)
	old, _ := os.ReadFile(f.Path)
	text, err := f.Edit(old, clientconfig.Edit{Put: &clientconfig.Launch{Command: "sandpiper", Args: []string{"serve"}}, Drop: drop})
	if err != nil {
		t.Fatal(err)
	}
	return rewrite.Change{Path: f.Path, Old: old, New: text, Mode: 0o600}
}

func put(t *testing.T, b clientconfig.Backups, c rewrite.Change) {
	t.Helper()
	if _, err := b.Write(c); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func replace(t *testing.T, path, old, new string) {
	t.Helper()
	text := read(t, path)
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not contain %s:\n%s", path, old, text)
	}
	write(t, path, strings.Replace(text, old, new, 1))
}

// undo undoes the only change and returns the fields of its result.
func undo(t *testing.T, b clientconfig.Backups) string {
	t.Helper()
	all, err := b.Undo(false, keepNone)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0].Done + "|" + all[0].Left
}

func keepNone(string) string { return "" }

func TestUndoRestoresUnchangedFileExactly(t *testing.T) {
	path, b := applied(t)
	if read(t, path+suffix) != original || !strings.Contains(read(t, path), "sandpiper") || strings.Contains(read(t, path), "secret") {
		t.Fatalf("changed to %s, backup %s", read(t, path), read(t, path+suffix))
	}
	if strings.Contains(read(t, filepath.Join(b.Dir, "init.json")), "secret") {
		t.Error("the list of changed files contains a secret")
	}
	if all, err := b.Undo(true, keepNone); err != nil || len(all) != 1 || all[0].Done != "restored" || strings.Contains(read(t, path),
		"secret") {
		t.Errorf("dry run: %+v, %v", all, err)
	}
	if got := undo(t, b); got != "restored|" || read(t, path) != original {
		t.Errorf("%s: %s", got, read(t, path))
	}
	for dir, want := range map[string]string{filepath.Dir(path): path, b.Dir: filepath.Join(b.Dir, "init.json.lock")} {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if d := gocmp.Diff([]string{want}, left); d != "" {
			t.Errorf("files after undo: %s", d)
		}
	}
	if all, err := b.Undo(false, keepNone); len(all) != 0 || err != nil {
		t.Errorf("second undo: %+v, %v", all, err)
	}
	put(t, b, changeOf(t, b.Env, "cursor", "x"))
	if got := undo(t, b); got != "restored|" || read(t, path) != original {
		t.Errorf("undo after another init: %s: %s", got, read(t, path))
	}
}

// Each case edits the file after init; want is what the original becomes after undo.
func TestUndoOfChangedFileKeepsEdits(t *testing.T) {
	const serverX = "    // of x\n    \"x\": {\"command\": \"x\", \"env\": {\"K\": \"secret\"}}"
	for name, tc := range map[string]struct{ old, new, want string }{
		"elsewhere":        {`"count": 1`, `"count": 2`, `"count": 2`},
		"a server added":   {`"serve"]},`, `"serve"]}, "z": {"command": "z"}, // new`, `"z": {"command": "z"}, // new`},
		"a server removed": {",\n    \"y\": {\"command\": \"y\"}", "", ""},
		"a server edited":  {`"command": "y"`, `"command": "yy"`, "\"command\": \"yy\""},
		"x added again":    {`"y": {"command": "y"}`, `"y": {"command": "y"}, "x": {"command": "new"}`, `"x": {"command": "new"}`},
		"our entry moved":  {`"args": ["serve"]`, `"args": [ "serve" ]`, ""},
		"entry removed":    {"    \"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]},\n", "", ""},
		"comment above":    {"    \"y\"", "    // of y\n    \"y\"", "// of y\n    \"y\""},
	} {
		t.Run(name, func(t *testing.T) {
			path, b := applied(t)
			replace(t, path, tc.old, tc.new)
			done := map[string]string{"x added again": "removed sandpiper", "entry removed": "put back x"}[name]
			if got := undo(t, b); got != reverted+cmp.Or(done, "removed sandpiper, put back x")+"|" {
				t.Error(got)
			}
			now := read(t, path)
			if strings.Contains(now, "sandpiper") || !strings.Contains(now, "// mine") || !strings.Contains(now, tc.want) ||
				strings.Contains(now, serverX) == (name == "x added again") || strings.Contains(now,
				`"y"`) == (name == "a server removed") {
				t.Errorf("after undo:\n%s", now)
			}
			if _, err := os.Stat(path + suffix); err == nil {
				t.Error("the backup was not deleted")
			}
		})
	}
}

func TestUndoKeepsEditedEntryInFileBeside(t *testing.T) {
	for old, new := range map[string]string{
		`"serve"`:                 `"serve", "--profile", "lean"`,
		`"sandpiper"`:             "// mine too\n    \"sandpiper\"",
		`["serve"]},`:             "[\"serve\"]}, // mine too",
		`{"command": "sandpiper"`: `{"disabled": true, "command": "sandpiper"`,
	} {
		path, b := applied(t)
		replace(t, path, old, new)
		changed := read(t, path)
		if got := undo(t, b); got != reverted+"removed sandpiper, put back x; the file with the edited entry is mcp.json"+edited+"|" {
			t.Error(new, got)
		}
		if now := read(t, path); strings.Contains(now, "sandpiper") || !strings.Contains(now, `"x"`) || read(t, path+edited) != changed {
			t.Errorf("%s\n%s", now, read(t, path+edited))
		}
	}
}

func TestUndoLeavesFileThatCannotBeReverted(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(path string)
		want   string
	}{
		"the backup is not JSON": {func(path string) { os.WriteFile(path+suffix, []byte("{"), 0o600) }, "|its backup "},
		"the file was removed":   {func(path string) { os.Remove(path) }, "|it was removed since; its original is "},
		"the file is not JSON": {func(path string) { os.WriteFile(path, []byte("{"), 0o600) },
			"|it was changed since and cannot be edited; its original is "},
		"the file is a directory": {func(path string) { os.Remove(path); os.Mkdir(path, 0o700) }, "|it is not a regular file"},
		"the servers are no object": {func(path string) { os.WriteFile(path, []byte(`{"mcpServers": 7}`), 0o600) },
			"|it was changed since and cannot be edited; its original is "},
	} {
		t.Run(name, func(t *testing.T) {
			path, b := applied(t)
			tc.change(path)
			changed, _ := os.ReadFile(path)
			if got := undo(t, b); !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if now, _ := os.ReadFile(path); string(now) != string(changed) || name != "the backup is not JSON" && read(t,
				path+suffix) != original {
				t.Errorf("the file became %s", now)
			}
			undo(t, b) // it is still in the list
		})
	}
}

func TestUndoWithoutBackup(t *testing.T) {
	const lost = "|the backup was removed; put these servers back by hand: x"
	path, b := applied(t)
	os.Remove(path + suffix)
	if got := undo(t, b); got != reverted+"removed sandpiper"+lost || strings.Contains(read(t, path), "sandpiper") ||
		!strings.Contains(read(t, path), `"y"`) {
		t.Errorf("%s: %s", got, read(t, path))
	}
	if got := undo(t, b); got != "has no change of sandpiper init any more"+lost {
		t.Error(got)
	}
	write(t, path, original)
	if got := undo(t, b); got != "has no change of sandpiper init any more|" {
		t.Error(got)
	}
	put(t, b, changeOf(t, b.Env, "cursor"))
	os.Remove(path + suffix)
	if got := undo(t, b); got != reverted+"removed sandpiper|" || read(t, path) != original {
		t.Errorf("%s: %s", got, read(t, path))
	}
}

// The configuration of Sandpiper has the last description of a server whose backup was removed.
func TestUndoKeepsDescriptionOfLostServers(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": original})
	b := backupsIn(env)
	yaml := filepath.Join(b.Dir, "sandpiper.yaml")
	put(t, b, rewrite.Change{Path: yaml, New: []byte("servers:"), Mode: 0o600})
	c := changeOf(t, env, "cursor", "x")
	put(t, b, c)
	os.Remove(c.Path + suffix)
	for range 2 {
		if all, err := b.Undo(false, keepNone); err != nil || len(all) != 2 || !all[1].Kept || read(t, yaml) != "servers:" {
			t.Errorf("%+v, %v", all, err)
		}
	}
	write(t, c.Path, original)
	if all, err := b.Undo(false, keepNone); err != nil || len(all) != 2 || all[1].Done != "removed; there was none before" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestUndoWithoutList(t *testing.T) {
	path, b := applied(t)
	os.Remove(filepath.Join(b.Dir, "init.json"))
	if got := undo(t, b); got != reverted+"removed sandpiper, put back x|" || strings.Contains(read(t, path), "sandpiper") ||
		!strings.Contains(read(t, path), "secret") {
		t.Errorf("%s: %s", got, read(t, path))
	}
}

// A later write keeps the original, with what the person changed in between.
func TestLaterWriteKeepsOriginal(t *testing.T) {
	path, b := applied(t)
	put(t, b, changeOf(t, b.Env, "cursor", "y"))
	if read(t, path+suffix) != original {
		t.Errorf("the backup became %s", read(t, path+suffix))
	}
	replace(t, path, `"serve"]}`, `"serve"]}, "z": {"command": "z", "env": {"K": "of-z"}}`)
	put(t, b, changeOf(t, b.Env, "cursor", "z"))
	if strings.Contains(read(t, path), "of-z") {
		t.Fatal(read(t, path))
	}
	if got := undo(t, b); got != "restored|" {
		t.Error(got)
	}
	now := read(t, path)
	for _, server := range []string{`"x":`, `"y":`, `"z":`, "secret", "of-z", "// of x", "// after x"} {
		if strings.Count(now, server) != 1 {
			t.Errorf("%s is there %d times:\n%s", server, strings.Count(now, server), now)
		}
	}
	if strings.Contains(now, "sandpiper") {
		t.Error(now)
	}
}

func TestUndoPutsBackComments(t *testing.T) {
	const commented = "{\r\n  \"mcpServers\": {\r\n    // above\r\n\r\n    /* more */\r\n    \"x\": {\r\n      \"command\": \"x\", // " +
		"inside\r\n    } /* before */, // after\r\n    \"y\": {}\r\n  },\r\n  \"n\": 1\r\n}\r\n"
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": commented})
	b, path := backupsIn(env), filepath.Join(env.Home, ".cursor/mcp.json")
	put(t, b, changeOf(t, env, "cursor", "x"))
	replace(t, path, `"n": 1`, `"n": 2`)
	if got := undo(t, b); got != reverted+"removed sandpiper, put back x|" {
		t.Error(got)
	}
	now := read(t, path)
	for _, comment := range []string{"// above", "/* more */", "// inside", "/* before */", "// after"} {
		if !strings.Contains(now, comment) {
			t.Errorf("%s is lost:\n%s", comment, now)
		}
	}
	if strings.Count(now, "\n") != strings.Count(now, "\r\n") {
		t.Errorf("line ends: %q", now)
	}
}

func TestUndoPutsBackServersOfCodexAndOfProjects(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".codex/config.toml": "model = \"a\"\n\n# of x\n[mcp_servers.x]\ncommand = \"x\"\n[mcp_servers.x.env]\nK = \"1\"\n\n[tui]\nn = 1\n",
		".claude.json":       `{"projects": {"HOME/shop": {"mcpServers": {"p": {"command": "p"}}}}, "n": 1}`,
	})
	b := backupsIn(env)
	put(t, b, changeOf(t, env, "codex", "x"))
	codex, claude := filepath.Join(env.Home, ".codex/config.toml"), filepath.Join(env.Home, ".claude.json")
	replace(t, codex, `"a"`, `"b"`)
	write(t, codex, read(t, codex)+"\n# at the end\n")
	found := clientconfig.Find(env, false).Servers
	if len(found) != 1 || found[0].Name != "p" {
		t.Fatal(found)
	}
	old := []byte(read(t, claude))
	text, err := found[0].From[0].File.Edit(old, clientconfig.Edit{Drop: []string{"p"}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, rewrite.Change{Path: claude, Old: old, New: text})
	replace(t, claude, `"n": 1`, `"n": 2`)
	all, err := b.Undo(false, keepNone)
	if err != nil || len(all) != 2 || all[0].Done != reverted+"put back p" || all[1].Done != reverted+"removed sandpiper, put back x" {
		t.Fatal(all, err)
	}
	const want = "model = \"b\"\n\n[tui]\nn = 1\n\n\n# at the end\n\n# of x\n[mcp_servers.x]\ncommand = \"x\"\n[mcp_servers.x.env]\nK = " +
		"\"1\"\n\n"
	if d := gocmp.Diff(want, read(t, codex)); d != "" {
		t.Error(d)
	}
	if now := read(t, claude); !strings.Contains(now, `"p": {"command": "p"}`) || !strings.Contains(now, `"n": 2`) {
		t.Error(now)
	}
}

// Init replaces a disabled entry of Sandpiper, and undo puts it back.
func TestUndoPutsBackReplacedEntry(t *testing.T) {
	const disabled = "{\"mcpServers\": {\"sandpiper\": {\"command\": \"old\", \"disabled\": true}},\n\"n\": 1}\n"
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": disabled})
	b, path := backupsIn(env), filepath.Join(env.Home, ".cursor/mcp.json")
	put(t, b, changeOf(t, env, "cursor"))
	replace(t, path, `"n": 1`, `"n": 2`)
	if got := undo(t, b); got != reverted+"removed sandpiper, put back sandpiper|" || !strings.Contains(read(t, path),
		`{"command": "old", "disabled": true}`) {
		t.Errorf("%s: %s", got, read(t, path))
	}
}

func TestWriteLeavesFileThatWasChanged(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": original})
	b := backupsIn(env)
	c := changeOf(t, env, "cursor", "x")
	other := strings.Replace(original, "1", "2", 1)
	write(t, c.Path, other)
	if _, err := b.Write(c); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "changed by another program") {
		t.Errorf("%v", err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	if read(t, c.Path) != other || len(left) != 1 {
		t.Errorf("%s, %q", read(t, c.Path), left)
	}
	if all, err := b.Undo(false, keepNone); len(all) != 0 || err != nil {
		t.Errorf("the failed write is in the list: %+v, %v", all, err)
	}
	c.Path, c.Old = filepath.Join(env.Home, "appeared"), nil
	write(t, c.Path, "theirs")
	if _, err := b.Write(c); err == nil || read(t, c.Path) != "theirs" {
		t.Errorf("a file created by another program was replaced: %v", err)
	}
}

func TestUndoAfterKillBeforeWrite(t *testing.T) {
	path, b := applied(t)
	write(t, path, original) // the list and the backup are written first
	if got := undo(t, b); got != "was already restored|" || read(t, path) != original {
		t.Error(got)
	}
}

func TestUndoRemovesFileThatDidNotExist(t *testing.T) {
	env := newEnv(t, "linux", nil)
	b := backupsIn(env)
	path := filepath.Join(env.Home, "new", "x.yaml")
	for _, tc := range []struct{ now, want string }{
		{"{}", "removed; there was none before|"},
		{"{ }", "|it was changed since; there was none before: edit or remove it by hand"},
		{"", "was already restored|"},
	} {
		put(t, b, rewrite.Change{Path: path, New: []byte("{}"), Mode: 0o600})
		write(t, path, tc.now)
		if tc.now == "" {
			os.Remove(path)
		}
		if got := undo(t, b); got != tc.want {
			t.Errorf("undo of %q: %q, want %q", tc.now, got, tc.want)
		}
		os.Remove(path)
		if _, err := b.Undo(false, keepNone); err != nil {
			t.Error(err)
		}
	}
	for add, want := range map[string]string{"": "removed; there was none before|", "\n": "removed; there was none before|",
		"// mine\n": reverted + "removed sandpiper|"} {
		c := changeOf(t, env, "gemini")
		put(t, b, c)
		write(t, c.Path, read(t, c.Path)+add)
		got := undo(t, b)
		_, err := os.Stat(c.Path)
		if got != want || os.IsNotExist(err) != strings.HasPrefix(want, "removed") {
			t.Errorf("undo with %q: %q, want %q", add, got, want)
		}
		os.Remove(c.Path)
	}
}

func TestOwnFileThatWasChangedIsKept(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{"sandpiper.yaml": "a"})
	b, path := backupsIn(env), filepath.Join(env.Home, "sandpiper.yaml")
	put(t, b, rewrite.Change{Path: path, Old: []byte("a"), New: []byte("ab")})
	write(t, path, "abc")
	if got := undo(t, b); got != "|it was changed since; its original is "+path+suffix || read(t, path) != "abc" {
		t.Error(got)
	}
	put(t, b, rewrite.Change{Path: path, Old: []byte("abc"), New: []byte("abcd")})
	if got := undo(t, b); got != "restored|" || read(t, path) != "abc" {
		t.Error(got, read(t, path))
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
	b := backupsIn(env)
	backup, err := b.Write(changeOf(t, env, "cursor", "x"))
	if err != nil || backup != link+suffix {
		t.Fatal(backup, err)
	}
	check := func(when string) {
		info, err := os.Lstat(link)
		file, err2 := os.Stat(target)
		if err != nil || err2 != nil || info.Mode()&os.ModeSymlink == 0 || file.Mode().Perm() != 0o640 {
			t.Errorf("%s: link %v, file %v", when, info.Mode(), file.Mode())
		}
	}
	check("after the write")
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("backup: %v, %v", info, err)
	}
	undo(t, b)
	check("after the undo")
	if read(t, target) != original {
		t.Error(read(t, target))
	}
}

func TestWriteRefusesUnwritablePaths(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{"ro": "x", "dir/x": ""})
	b := backupsIn(env)
	in := func(name string) string { return filepath.Join(env.Home, name) }
	if err := os.Chmod(in("ro"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(in("nowhere"), in("dangling")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]rewrite.Change{
		"read-only":    {Path: in("ro"), Old: []byte("x"), New: []byte("y")},
		"directory":    {Path: in("dir"), New: []byte("y")},
		"dangling":     {Path: in("dangling"), New: []byte("y")},
		"below a file": {Path: in("ro") + "/x", New: []byte("y")},
	} {
		if _, err := b.Write(c); err == nil || fault.Message(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(t, filepath.Join(b.Dir, "init.json"), "{")
	if _, err := b.Undo(false, keepNone); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("unreadable list: %v", err)
	}
}

func TestConcurrentWritesOfOneFile(t *testing.T) {
	env := newEnv(t, "linux", nil)
	b := backupsIn(env)
	path := filepath.Join(env.Home, "f")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = b.Write(rewrite.Change{Path: path, New: []byte{byte('a' + i)}, Mode: 0o600})
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
	if all, err := b.Undo(false, keepNone); len(all) != 1 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestUndoKeepsFileWithReason(t *testing.T) {
	env := newEnv(t, "linux", nil)
	b := backupsIn(env)
	path := filepath.Join(env.Home, "kept")
	put(t, b, rewrite.Change{Path: path, New: []byte("x"), Mode: 0o600})
	all, err := b.Undo(false, func(string) string { return "it is in use" })
	if err != nil || len(all) != 1 || !all[0].Kept || all[0].Left != "it is in use" || read(t, path) != "x" {
		t.Fatal(all, err)
	}
	if all, err := b.Undo(false, keepNone); err != nil || len(all) != 1 || all[0].Kept || all[0].Left != "" {
		t.Fatal(all, err) // it stayed in the list
	}
}
