package codegen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// files creates files in a new directory.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadHandwrittenIgnoresUnimportableFiles(t *testing.T) {
	outside := files(t, map[string]string{"secret.py": "SECRET = 1"})
	dir := files(t, map[string]string{
		"a/__init__.py": "", "a/_own.py": "x = 1", "a/f.py": "def f(): ...", "a/notes.txt": "no", "a/deep/g.py": "no",
		"b/f.py": "y", "top.py": "def t(): ...", "a.py": "no", "not-a-name.py": "no", "_x.py": "no", "__init__.py": "no",
		"not-a-name/f.py": "no", "b/not-a-name.py": "no", "_c/f.py": "no", "b/class.py": "no",
	})
	for link, to := range map[string]string{"a/out.py": outside + "/secret.py", "a/gone.py": "nowhere.py", "c": outside} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "a", "folder.py"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, ignored, err := codegen.ReadHandwritten(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, s := range got {
		for _, f := range s.Files {
			paths = append(paths, f.Path)
		}
	}
	if d := cmp.Diff([]string{"a/__init__.py", "a/_own.py", "a/f.py", "b/f.py", "top/__init__.py"}, paths); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a/folder.py", "a/gone.py", "a/out.py", "b/class.py", "b/not-a-name.py", "not-a-name/f.py", "a.py",
		"not-a-name.py"}, ignored); d != "" {
		t.Error(d)
	}
}

func TestReadHandwrittenRejectsLargeFileAndMissingDirectory(t *testing.T) {
	for _, dir := range []string{files(t, map[string]string{"a/f.py": strings.Repeat("#", 1<<20+1)}), "/no/such/directory"} {
		if _, _, err := codegen.ReadHandwritten(dir); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestGeneratedModuleShadowsHandwritten(t *testing.T) {
	hand := []codegen.File{{Path: "one/f.py", Data: []byte("by hand\n")}, {Path: "one/g.py", Data: []byte("by hand\n")},
		{Path: "one/aio.py", Data: []byte("by hand\n")}, {Path: "one/prompts.py", Data: []byte{}}}
	s := codegen.Server{Name: "one", Module: "one", Tools: []tool.Definition{definition(`{}`)}, Files: hand}
	if d := cmp.Diff([]string{"one/f.py", "one/aio.py"}, s.Shadowed()); d != "" {
		t.Error(d)
	}
	var visible []string
	for _, f := range codegen.Generate(s) {
		if len(f.Data) == 0 || strings.HasPrefix(string(f.Data), "by hand") {
			visible = append(visible, f.Path)
		}
	}
	if d := cmp.Diff([]string{"one/g.py", "one/prompts.py"}, visible); d != "" {
		t.Error(d)
	}
}

func TestSyncWritesHandwrittenModules(t *testing.T) {
	path, dirs := newDirs(t, 1)
	own := codegen.Server{Module: "own", Files: []codegen.File{{Path: "own/f.py", Data: []byte("x = 1\n")}}}
	checkSync(t, path, dirs[0], append(twoServers(), own), "one", "own", "two")
	checkSync(t, path, dirs[0], append(twoServers(), own))
	own.Files = []codegen.File{{Path: "own/__init__.py", Data: []byte("x = 2")}}
	checkSync(t, path, dirs[0], append(twoServers(), own), "own")
	checkSync(t, path, dirs[0], twoServers(), "own")
}

// Functions are found by name in files of any name; a tool, a file of that name, and an earlier
// file hide one.
func TestHandwrittenFunctions(t *testing.T) {
	hand := []codegen.File{
		{Path: "one/__init__.py", Data: []byte("def shared(): ...\n")},
		{Path: "one/_own.py", Data: []byte("def private(): ...\n")},
		{Path: "one/aaa.py", Data: []byte("'''About aaa.'''\ndef g(): ...\ndef f(a: int) -> int:\n    '''By hand.'''\ndef " +
			"extra(x=1): ...\n")},
		{Path: "one/bbb.py", Data: []byte("def extra(): ...\ndef more(): ...\ndef aio(): ...\ndef _hidden(): ...\n")},
		{Path: "one/g.py", Data: []byte("def g(): '''Of g.'''\n")},
	}
	names := func(s codegen.Server) (all []string) {
		for _, h := range s.Handwritten() {
			all = append(all, h.File+" "+h.Signature()+" "+h.About)
		}
		return all
	}
	alone := codegen.Server{Module: "one", Files: hand}
	if d := cmp.Diff([]string{"one/__init__.py shared() ", "one/g.py g() Of g.", "one/aaa.py f(a: int) -> int By hand.",
		"one/aaa.py extra(x=1) About aaa.", "one/bbb.py more() ", "one/bbb.py aio() "}, names(alone)); d != "" {
		t.Error(d)
	}
	beside := codegen.Server{Name: "one", Module: "one", Tools: []tool.Definition{definition(`{}`)}, Files: hand}
	if d := cmp.Diff([]string{"one/g.py g() Of g.", "one/aaa.py extra(x=1) About aaa.", "one/bbb.py more() "}, names(beside)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"one/aaa.py: f", "one/bbb.py: aio"}, beside.ShadowedFunctions()); d != "" {
		t.Error(d)
	}
}
