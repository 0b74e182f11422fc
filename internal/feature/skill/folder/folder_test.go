package folder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill/folder"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

func TestNamesAreDistinctAndValid(t *testing.T) {
	for name, want := range map[string]string{
		"stats": "stats", "filter_high_risk": "filter-high-risk", "v2_of_x": "v2-of-x",
		"Stats": "stats-", "filter__high_risk": "filter-high-risk-", "_x": "x-", "x_": "x-", "_": "", "X_1": "x-1-",
		strings.Repeat("ab", 50): strings.Repeat("ab", 27) + "a-",
	} {
		got := folder.Name(name)
		if !strings.HasPrefix(got, want) || len(got) > 64 || strings.Contains(got, "--") || strings.Trim(got, "-") != got ||
			got != strings.ToLower(got) {
			t.Errorf("%q is named %q", name, got)
		}
	}
	seen := map[string]string{}
	for _, name := range []string{"a_b", "A_b", "a__b", "_a_b", "a_b_", "a_B", "ab"} {
		if other, used := seen[folder.Name(name)]; used {
			t.Errorf("%q and %q have the same name", name, other)
		}
		seen[folder.Name(name)] = name
	}
}

func TestRoundTrip(t *testing.T) {
	for _, s := range []skill.Skill{
		{Name: "stats", Code: "x = 1\n"},
		{Name: "Mixed_Case", Code: "# ü\r\nx = '''---\n'''",
			Metadata: skill.Metadata{Description: `a "quoted" text: with # signs, ü and 'more'`, Tags: []string{"csv", "two words"},
				Version: 7}},
		{Name: "odd", Code: "1", Metadata: skill.Metadata{Description: "x", Tags: []string{"a,b", " c", "[d]"}},
			Instructions: "# How\n\nUse it.\n"},
	} {
		s.Metadata.Name = s.Name
		path, err := folder.Of(s).Write(filepath.Join(t.TempDir(), "skills"))
		if err != nil {
			t.Fatal(err)
		}
		drafts, ignored, err := folder.Read(path)
		if err != nil || len(drafts) != 1 || len(ignored) != 0 {
			t.Fatalf("%+v, %v, %v", drafts, ignored, err)
		}
		got, m := drafts[0], s.Metadata
		if got.Name != s.Name || got.Code != s.Code || !cmp.Equal(got.Tags, m.Tags) ||
			m.Description != "" && got.Description != m.Description ||
			s.Instructions != "" && got.Instructions != s.Instructions || got.Instructions == "" {
			t.Errorf("%+v became %+v", s, got)
		}
		if _, err := folder.Of(s).Write(filepath.Dir(path)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("written over: %v", err)
		}
	}
}

// write writes the files of a folder and returns its path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const manifest = "---\nname: pdf-tools\ndescription: >\n  Fill and\n  merge PDFs.\nlicense: MIT\nmetadata:\n  author: someone\n  tags: " +
	"[pdf, forms]\n---\n\n# PDF\n\nUse it.\n"

func TestReadsFoldersOfOthers(t *testing.T) {
	drafts, ignored, err := folder.Read(write(t, map[string]string{
		"SKILL.md": strings.ReplaceAll(manifest, "\n", "\r\n"), "scripts/fill-form.py": "a = 1", "scripts/merge.py": "b = 2",
		"scripts/__init__.py": "",
		"scripts/run.sh":      "", "references/FORMS.md": "", "LICENSE": "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	base := skill.Draft{Description: "Fill and merge PDFs.", Tags: []string{"pdf", "forms", "pdf-tools"},
		Instructions: "# PDF\n\nUse it.\n"}
	first, second := base, base
	first.Name, first.Code = "pdf_tools_fill_form", "a = 1"
	second.Name, second.Code = "pdf_tools_merge", "b = 2"
	if diff := cmp.Diff([]skill.Draft{first, second}, drafts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"LICENSE", "references/FORMS.md", "scripts/__init__.py", "scripts/run.sh"}, ignored); diff != "" {
		t.Error(diff)
	}
	drafts, ignored, err = folder.Read(write(t, map[string]string{"SKILL.md": manifest, "scripts/pdf_tools.py": "a = 1",
		"scripts/more.py": "b = 2"}))
	if err != nil || len(drafts) != 1 || drafts[0].Name != "pdf_tools" || drafts[0].Code != "a = 1" || !cmp.Equal(ignored,
		[]string{"scripts/more.py"}) {
		t.Errorf("%+v, %v, %v", drafts, ignored, err)
	}
	for name, want := range map[string]string{"2-d": "_2_d", "class": "class_", "x": "x"} {
		drafts, _, err := folder.Read(write(t, map[string]string{"SKILL.md": "---\nname: " + name + "\ndescription: x\n---\n",
			"scripts/a.py": "1"}))
		if err != nil || drafts[0].Name != want {
			t.Errorf("%s: %+v, %v", name, drafts, err)
		}
	}
}

func TestReadRefusesBadFolders(t *testing.T) {
	bomb := "---\nname: x\ndescription: x\nmetadata:\n  a: &a [x, x]\n  b: &b [*a, *a]\n---\n"
	for _, row := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, "it has no SKILL.md"},
		{"no front matter", map[string]string{"SKILL.md": "# Text"}, "must begin with YAML front matter"},
		{"open front matter", map[string]string{"SKILL.md": "---\nname: x\n"}, "must begin with YAML front matter"},
		{"no YAML", map[string]string{"SKILL.md": "---\n{\n---\n"}, "the front matter is not valid"},
		{"a list", map[string]string{"SKILL.md": "---\n- x\n---\n"}, "the front matter is not valid"},
		{"aliases", map[string]string{"SKILL.md": bomb}, "anchors and aliases are not supported"},
		{"a long front matter", map[string]string{"SKILL.md": "---\nname: x\ndescription: " + strings.Repeat("x", 20_000) + "\n---\n"},
			"at most 16384 are allowed"},
		{"a long text", map[string]string{"SKILL.md": manifest + strings.Repeat("x", 300_000)}, "SKILL.md has more than 262144 bytes"},
		{"no name", map[string]string{"SKILL.md": "---\ndescription: x\n---\n"}, `the name "" is not allowed`},
		{"a path as name", map[string]string{"SKILL.md": "---\nname: ../x\ndescription: x\n---\n"}, `the name "../x" is not allowed`},
		{"no description", map[string]string{"SKILL.md": "---\nname: x\n---\n"}, "it has no description"},
		{"no script", map[string]string{"SKILL.md": manifest}, "has 0 Python files in scripts"},
		{"only other scripts", map[string]string{"SKILL.md": manifest, "scripts/a.sh": ""}, "has 0 Python files in scripts"},
		{"binary", map[string]string{"SKILL.md": manifest, "scripts/a.py": "\xff"}, "scripts/a.py is not UTF-8"},
		{"huge", map[string]string{"SKILL.md": manifest, "scripts/a.py": strings.Repeat("#", 1<<20+1)}, "has more than 1048576 bytes"},
	} {
		_, _, err := folder.Read(write(t, row.files))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func TestReadFollowsNoLinks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.py")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"SKILL.md": manifest, "scripts/a.py": "1", "scripts/real.txt": "1"})
	if err := os.Symlink(secret, filepath.Join(dir, "scripts/out.py")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("real.txt", filepath.Join(dir, "scripts/in.py")); err != nil {
		t.Fatal(err)
	}
	drafts, ignored, err := folder.Read(dir)
	if err != nil || len(drafts) != 1 || drafts[0].Code != "1" || !cmp.Equal(ignored,
		[]string{"scripts/in.py", "scripts/out.py", "scripts/real.txt"}) {
		t.Errorf("%+v, %v, %v", drafts, ignored, err)
	}
	linked := write(t, map[string]string{"scripts/a.py": "1"})
	if err := os.Symlink(filepath.Join(dir, "SKILL.md"), filepath.Join(linked, "SKILL.md")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := folder.Read(linked); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a linked manifest: %v", err)
	}
}
