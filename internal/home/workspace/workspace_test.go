package workspace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func open(t testing.TB, cfg workspace.Config) *workspace.Files {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	f, err := workspace.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t testing.TB, f *workspace.Files, name, content string) {
	t.Helper()
	if err := f.Write(t.Context(), name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, f *workspace.Files, name string) string {
	t.Helper()
	p, err := f.Read(t.Context(), name, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(p.Content)
}

func TestWriteRead(t *testing.T) {
	f, other := open(t, workspace.Config{}), open(t, workspace.Config{})
	for _, name := range []string{"a.txt", "data/deep/er/b.txt", "/workspace/c.txt", "./d.txt", "e//f.txt", `back\slash.txt`, "ünï.txt",
		"a b\n.txt"} {
		write(t, f, name, "first content of "+name)
		write(t, f, name, "content of "+name)
		if got := read(t, f, name); got != "content of "+name {
			t.Errorf("%s holds %q", name, got)
		}
	}
	l, err := f.List(t.Context(), ".")
	want := []string{"a b\n.txt", "a.txt", `back\slash.txt`, "c.txt", "d.txt", "data/deep/er/b.txt", "e/f.txt", "ünï.txt"}
	if err != nil || l.Truncated || !cmp.Equal(l.Files, want) {
		t.Errorf("listed %q, %v, want %q", l.Files, err, want)
	}
	if l, err := other.List(t.Context(), "."); err != nil || len(l.Files) != 0 {
		t.Errorf("another workspace holds %q, %v", l.Files, err)
	}
}

func TestInvalidNamesAreRejected(t *testing.T) {
	f := open(t, workspace.Config{})
	write(t, f, "file.txt", "x")
	write(t, f, "dir/file.txt", "x")
	long := strings.Repeat("n", 300)
	for _, c := range []struct {
		name string
		kind fault.Kind
		want string
	}{
		{"", fault.Invalid, "the name of a file must not be empty"},
		{"../x", fault.Denied, `the name "../x" contains "..": names stay inside the workspace`},
		{"a/../b", fault.Denied, `the name "a/../b" contains "..": names stay inside the workspace`},
		{"/workspace/../x", fault.Denied, `the name "/workspace/../x" contains "..": names stay inside the workspace`},
		{"/etc/passwd", fault.Invalid, `the name "/etc/passwd" is absolute: names are relative to the workspace, such as ` +
			`"data/report.csv"`},
		{"/workspaces/x", fault.Invalid, `the name "/workspaces/x" is absolute: names are relative to the workspace, such as ` +
			`"data/report.csv"`},
		{"a\x00b", fault.Invalid, `the name "a\x00b" contains a NUL character, which no file name can`},
		{"a\xffb", fault.Invalid, `the name "a\xffb" is not valid UTF-8`},
		{long, fault.Invalid, "the name has 300 bytes between slashes: a file name may have 255"},
		{strings.Repeat("d/", 2100), fault.Invalid, "the name has 4200 bytes: a path may have 4095"},
		// a cut value would not be found
		{strings.Repeat("a", 69) + "/../131-42-4002", fault.Denied,
			`the name "` + strings.Repeat("a", 69) + `/../131-42-4002" contains "..": names stay inside the workspace`},
		{".", fault.Invalid, `"." names a directory, not a file`},
		{"/workspace", fault.Invalid, `"/workspace" names a directory, not a file`},
		{"dir/", fault.Invalid, `"dir/" names a directory, not a file`},
		{"dir", fault.Invalid, `"dir" is a directory, not a file`},
		{"file.txt/x", fault.Invalid, `a part of "file.txt/x" before its last slash is a file, not a directory`},
	} {
		_, readErr := f.Read(t.Context(), c.name, 0, 0)
		for verb, err := range map[string]error{
			"Read": readErr, "Write": f.Write(t.Context(), c.name, nil), "Delete": f.Delete(t.Context(), c.name),
		} {
			if err == nil || fault.Message(err) != c.want || fault.KindOf(err) != c.kind {
				t.Errorf("%s(%.40q) says %v %q, want %v %q", verb, c.name, fault.KindOf(err), fault.Message(err), c.kind, c.want)
			}
		}
	}
	for _, name := range []string{"none.txt", "none/x"} {
		_, err := f.Read(t.Context(), name, 0, 0)
		if want := fmt.Sprintf("there is no %q in the workspace", name); fault.Message(err) != want || fault.KindOf(err) != fault.NotFound {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestPagesEndAtCharacterBoundaries(t *testing.T) {
	f := open(t, workspace.Config{})
	for name, content := range map[string]string{
		"ascii":  strings.Repeat("0123456789", 30),
		"mixed":  strings.Repeat("aé漢🐦", 30),
		"four":   strings.Repeat("🐦", 40),
		"binary": strings.Repeat("\x80\xff\x00\xe6", 40),
		"torn":   strings.Repeat("x", 99) + "\xe6\xbc",
		"empty":  "",
	} {
		write(t, f, name, content)
		for limit := int64(1); limit < 20; limit++ {
			var all []byte
			for offset := int64(0); ; {
				p, err := f.Read(t.Context(), name, offset, limit)
				if err != nil {
					t.Fatal(err)
				}
				if p.Size != int64(len(content)) || p.Offset != offset || int64(len(p.Content)) > max(limit, utf8.UTFMax) {
					t.Fatalf("%s: limit %d: odd page %+v", name, limit, p)
				}
				if utf8.ValidString(content) && !utf8.Valid(p.Content) {
					t.Fatalf("%s: limit %d: page %q splits a character", name, limit, p.Content)
				}
				all = append(all, p.Content...)
				if offset = p.Next; offset == 0 {
					break
				}
			}
			if string(all) != content {
				t.Errorf("%s: pages of %d make up %q", name, limit, all)
			}
		}
	}
}

func TestPageBounds(t *testing.T) {
	f := open(t, workspace.Config{})
	write(t, f, "big", strings.Repeat("x", workspace.MaxPage+10))
	for _, c := range []struct{ offset, limit, length, next int64 }{
		{0, 0, workspace.DefaultPage, workspace.DefaultPage},
		{0, 1 << 40, workspace.MaxPage, workspace.MaxPage},
		{workspace.MaxPage, 100, 10, 0},
		{workspace.MaxPage + 10, 100, 0, 0},
	} {
		p, err := f.Read(t.Context(), "big", c.offset, c.limit)
		if err != nil || int64(len(p.Content)) != c.length || p.Next != c.next {
			t.Errorf("%+v: %d bytes, next %d, %v", c, len(p.Content), p.Next, err)
		}
	}
	for want, c := range map[string][2]int64{
		"offset -1 is not allowed: offsets count bytes from 0":                           {-1, 0},
		"limit -5 is not allowed: use 1 to 8388608 bytes, or 0 for 262144":               {0, -5},
		`offset 9000000 is beyond the end of "big", which has 8388618 bytes`:             {9_000_000, 0},
		`offset 9223372036854775807 is beyond the end of "big", which has 8388618 bytes`: {1<<63 - 1, 1 << 62},
	} {
		_, err := f.Read(t.Context(), "big", c[0], c[1])
		if fault.Message(err) != want || fault.KindOf(err) != fault.Invalid {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestDelete(t *testing.T) {
	f := open(t, workspace.Config{})
	write(t, f, "d/x", "1")
	if err := f.Delete(t.Context(), "d/x"); err != nil {
		t.Fatal(err)
	}
	if err := f.Delete(t.Context(), "d/x"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("second Delete: %v", err)
	}
	if err := f.Delete(t.Context(), "d"); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestListOfSubdirectory(t *testing.T) {
	f := open(t, workspace.Config{})
	write(t, f, "a/one", "1")
	write(t, f, "a/b/two", "2")
	write(t, f, "ab/three", "3")
	for sub, want := range map[string][]string{
		"a":              {"a/b/two", "a/one"},
		"/workspace/a/b": {"a/b/two"},
		"a/":             {"a/b/two", "a/one"},
		"/workspace":     {"a/b/two", "a/one", "ab/three"},
	} {
		if l, err := f.List(t.Context(), sub); err != nil || !cmp.Equal(l.Files, want) {
			t.Errorf("%s: %q, %v, want %q", sub, l.Files, err, want)
		}
	}
	for sub, want := range map[string]string{
		"a/one": `"a/one" is not a directory`,
		"none":  `there is no "none" in the workspace`,
		"..":    `the name ".." contains "..": names stay inside the workspace`,
		"":      "the name of a file must not be empty",
	} {
		if _, err := f.List(t.Context(), sub); fault.Message(err) != want {
			t.Errorf("%q: got %v, want %q", sub, err, want)
		}
	}
}

func TestMountsAreReadOnly(t *testing.T) {
	view := t.TempDir()
	if err := os.WriteFile(filepath.Join(view, "s.py"), []byte("x = 1"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := open(t, workspace.Config{Mounts: map[string]string{"skills": view}})
	write(t, f, "sub/skills/own.txt", "an ordinary file")
	if got := read(t, f, "skills/s.py"); got != "x = 1" {
		t.Errorf("read %q", got)
	}
	for sub, want := range map[string][]string{
		".":      {"sub/skills/own.txt"},
		"skills": {"skills/s.py"},
	} {
		if l, err := f.List(t.Context(), sub); err != nil || !cmp.Equal(l.Files, want) {
			t.Errorf("%s: %q, %v, want %q", sub, l.Files, err, want)
		}
	}
	want := `"skills/s.py" cannot be changed: skills/ in the workspace is read-only`
	for _, err := range []error{f.Write(t.Context(), "skills/s.py", nil), f.Delete(t.Context(), "skills/s.py")} {
		if fault.Message(err) != want || fault.KindOf(err) != fault.Denied {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestUsage(t *testing.T) {
	f := open(t, workspace.Config{})
	empty, err := f.Usage(t.Context())
	if err != nil || empty.Files != 0 {
		t.Fatal(empty, err)
	}
	write(t, f, "a", strings.Repeat("x", 1<<20))
	write(t, f, "d/b", strings.Repeat("x", 1<<20))
	u, err := f.Usage(t.Context())
	if err != nil || u.Files != 2 || u.Incomplete || u.Bytes-empty.Bytes < 2<<20 || u.Bytes-empty.Bytes > 3<<20 {
		t.Errorf("two files of 1 MB take %+v, %v; empty was %+v", u, err, empty)
	}
}

func TestPrepareMountsMovesEntriesAside(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	moved, err := f.PrepareMounts(t.Context(), "skills", "servers")
	if err != nil || len(moved) != 0 {
		t.Fatal(moved, err)
	}
	write(t, f, "skills/mine.py", "kept")
	os.Remove(filepath.Join(dir, "servers"))
	write(t, f, "servers", "a file")
	moved, err = f.PrepareMounts(t.Context(), "skills", "servers")
	want := []workspace.Moved{{From: "skills", To: "skills.moved-1"}, {From: "servers", To: "servers.moved-1"}}
	if err != nil || !cmp.Equal(moved, want) {
		t.Errorf("moved %v, %v, want %v", moved, err, want)
	}
	if got := read(t, f, "skills.moved-1/mine.py") + read(t, f, "servers.moved-1"); got != "kepta file" {
		t.Errorf("the moved file contains %q", got)
	}
	write(t, f, "skills/again", "x")
	if moved, err = f.PrepareMounts(t.Context(), "skills"); err != nil || len(moved) != 1 || moved[0].To != "skills.moved-2" {
		t.Errorf("moved %v, %v", moved, err)
	}
}

func TestReadsAreAtomic(t *testing.T) {
	f := open(t, workspace.Config{})
	contents := [2]string{strings.Repeat("a", 100_000), strings.Repeat("b", 150_000)}
	write(t, f, "x", contents[0])
	done := make(chan error)
	go func() {
		var err error
		for i := 0; i < 200 && err == nil; i++ {
			err = f.Write(t.Context(), "x", []byte(contents[i%2]))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if got := read(t, f, "x"); got != contents[0] && got != contents[1] {
				t.Fatalf("read a mixture of %d bytes", len(got))
			}
		}
	}
}

func TestReplacedFileKeepsPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	write(t, f, "run.sh", "1")
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, f, "run.sh", "2")
	if fi, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

func TestRemoveAll(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	for i := range 50 {
		write(t, f, fmt.Sprintf("d%d/e/f%d", i%7, i), "x")
	}
	if err := f.RemoveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	write(t, f, "again", "usable")
}

// FuzzPath checks one property: no name reads, changes or creates anything outside the directory.
func FuzzPath(f *testing.F) {
	for _, name := range []string{"a", "../secret", "link/secret", "to-secret", "/workspace/../../secret", "a/./b//c", "/nowhere/secret",
		"\x00", "skills/../../secret", "link/../secret", "/proc/self/root/nowhere/secret", "..\\secret", strings.Repeat("x/", 3000)} {
		f.Add(name)
	}
	base := f.TempDir()
	outside, inside := filepath.Join(base, "outside"), filepath.Join(base, "inside")
	secret := []byte("the secret")
	for _, d := range []string{outside, inside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), secret, 0o600); err != nil {
		f.Fatal(err)
	}
	files := open(f, workspace.Config{Dir: inside, Mounts: map[string]string{"skills": inside}})
	f.Fuzz(func(t *testing.T, name string) {
		for link, to := range map[string]string{"link": outside, "to-secret": "../outside/secret", "up": ".."} {
			os.Symlink(to, filepath.Join(inside, link)) // again, if the last name removed it
		}
		if p, err := files.Read(t.Context(), name, 0, 0); err == nil && bytes.Contains(p.Content, secret) {
			t.Errorf("%q reads the secret", name)
		}
		files.List(t.Context(), name)
		if err := files.Write(t.Context(), name, []byte("w")); err == nil && read(t, files, name) != "w" {
			t.Errorf("%q was written and is not there", name)
		}
		files.Delete(t.Context(), name)
		for dir, want := range map[string][]string{base: {"inside", "outside"}, outside: {"secret"}} {
			if got := namesIn(t, dir); !cmp.Equal(got, want) {
				t.Errorf("%q changed the outside: %q", name, got)
			}
		}
		if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("%q changed the secret to %q, %v", name, got, err)
		}
	})
}

func namesIn(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestEachFindsTheFilesOfAList(t *testing.T) {
	f := open(t, workspace.Config{})
	for _, name := range []string{"b/two", "a", "b/c/three"} {
		write(t, f, name, name)
	}
	for _, dir := range []string{".", "b"} {
		l, err := f.List(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		missed, err := f.Each(t.Context(), dir, func(name string) error {
			got = append(got, name)
			return nil
		})
		slices.Sort(got)
		if diff := cmp.Diff(l.Files, got); diff != "" || missed || err != nil {
			t.Errorf("%s, missed %v, %v:\n%s", dir, missed, err, diff)
		}
	}
}
