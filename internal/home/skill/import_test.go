package skill_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

// put writes files to a legacy directory of skills.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// imports fails unless these skills are new.
func (h *home) imports(t *testing.T, dir string, want ...string) {
	t.Helper()
	got, err := h.Import(t.Context(), dir)
	if err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("imported: %s", d)
	}
}

func (h *home) code(t *testing.T, name string) string {
	t.Helper()
	sk, err := h.Find(t.Context(), name, 0)
	if err != nil {
		t.Fatal(err)
	}
	return sk.Code
}

func TestImportIsDoneOnce(t *testing.T) {
	h, dir := open(t, skill.Config{}), t.TempDir()
	put(t, dir, map[string]string{
		"high.py": "def high(): ...", "high.json": `{"name": "high", "description": "Only the high ones", "created": ` +
			`"2025-01-01T00:00:00", "code_hash": "x", "tags": ["a"]}`,
		"bare.py": "x = 1", "torn.py": "y = 1", "torn.json": "{", "__init__.py": "", "alone.json": "{}", "notes.txt": "",
	})
	h.imports(t, dir, "bare", "high", "torn")
	h.imports(t, dir)
	sk, err := h.Find(t.Context(), "high", 0)
	if err != nil || sk.Code != "def high(): ..." || sk.Metadata.Description != "Only the high ones" || sk.Metadata.Version != 1 ||
		len(sk.Metadata.Tags) != 1 {
		t.Errorf("%+v, %v", sk, err)
	}

	h.save(t, "high", "def high(): 'better'")
	h.imports(t, dir) // does not undo a later save
	if got := h.code(t, "high"); got != "def high(): 'better'" {
		t.Errorf("the saved skill became %q", got)
	}
	put(t, dir, map[string]string{"high.py": "def high(): 'by hand'"})
	h.imports(t, dir, "high")
	if err := os.Remove(filepath.Join(dir, "high.py")); err != nil {
		t.Fatal(err)
	}
	h.imports(t, dir)
	if got := h.code(t, "high"); got != "def high(): 'by hand'" {
		t.Errorf("the skill is %q after its file was deleted", got)
	}
}

func TestImportSkipsInvalidSkills(t *testing.T) {
	h, dir := open(t, skill.Config{}), t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, dir, map[string]string{"good.py": "x = 1", "not-a-name.py": "x = 1", "big.py": strings.Repeat("#", 1<<20+1), "empty.py": "",
		"class.py": "x = 1"})
	if err := os.Symlink(secret, filepath.Join(dir, "out.py")); err != nil {
		t.Skip(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.py"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := h.Import(t.Context(), dir)
	if d := cmp.Diff([]string{"good"}, got); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"not-a-name", "big", "empty", "class", "out", "folder"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("no error names %s: %v", name, err)
		}
	}
	if _, err := h.Import(t.Context(), filepath.Join(dir, "none")); err == nil {
		t.Error("a missing directory was read")
	}
}

// A skill without a description is described by its docstring.
func TestImportTakesDescriptionFromDocstring(t *testing.T) {
	h := open(t, skill.Config{})
	dir := t.TempDir()
	put(t, dir, map[string]string{"double.py": "\"\"\"Numbers.\"\"\"\n\ndef double(x):\n    \"\"\"Double a\n    number.\n\n    Twice.\n  " +
		"  \"\"\"\n    return 2 * x\n", "half.py": "'Halves.'\n", "own.py": "'x'\n", "own.json": `{"description": "Own"}`})
	h.imports(t, dir, "double", "half", "own")
	all, err := h.List(t.Context())
	if err != nil || len(all) != 3 || all[0].Description != "Double a number." || all[1].Description != "Halves." ||
		all[2].Description != "Own" {
		t.Errorf("%+v, %v", all, err)
	}
}
