package packages_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// in is the CPython of all tests.
var in *python.Installation

func TestMain(m *testing.M) {
	if dir := os.Getenv(stagingDirVar); dir != "" {
		os.Exit(blockInstall(dir))
	}
	for _, e := range os.Environ() { // remove pip settings
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "PIP_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("PIP_CONFIG_FILE", os.DevNull)
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "packages-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if in, err = python.Install(context.Background(), python.Config{Dir: dir}); err != nil {
			panic(err)
		}
		defer in.Close()
		return m.Run()
	}())
}

// fixture is a directory with a configuration, wheels and layers.
type fixture struct {
	t   *testing.T
	dir string
	cfg packages.Config
}

func newFixture(t *testing.T) *fixture {
	dir := t.TempDir()
	p := &fixture{t: t, dir: dir, cfg: packages.Config{
		WheelDir: filepath.Join(dir, "wheels"), LockFile: filepath.Join(dir, packages.LockName), LayerDir: filepath.Join(dir, "layers"),
	}}
	if err := os.Mkdir(p.cfg.WheelDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// file is one entry of a wheel.
type file struct {
	name, text string
	mode       fs.FileMode
}

// wheel writes a wheel that requires needs; name is a wheel name without extension, such as a-1.0-py3-none-any.
func (p *fixture) wheel(name string, needs string, files ...file) string {
	p.t.Helper()
	parts := strings.Split(name, "-")
	info := parts[0] + "-" + parts[1] + ".dist-info/"
	meta := "Metadata-Version: 2.1\nName: " + parts[0] + "\nVersion: " + parts[1] + "\n"
	if needs != "" {
		meta += "Requires-Dist: " + needs + "\n"
	}
	files = append(files, file{name: info + "METADATA", text: meta},
		file{name: info + "WHEEL", text: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: " + strings.Join(parts[2:],
			"-") + "\n"},
		file{name: info + "RECORD"})
	path := filepath.Join(p.cfg.WheelDir, name+".whl")
	if err := os.WriteFile(path, zipped(p.t, files), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, files []file) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode | 0o644)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (p *fixture) lock() *packages.Lock {
	p.t.Helper()
	l, err := packages.Resolve(p.t.Context(), p.cfg, in)
	if err != nil {
		p.t.Fatal(err, fault.Hint(err))
	}
	return l
}

func (p *fixture) install() *python.Layer {
	p.t.Helper()
	layer, _, err := packages.Install(p.t.Context(), p.cfg, in)
	if err != nil {
		p.t.Fatal(err, fault.Hint(err))
	}
	p.t.Cleanup(func() { layer.Close() })
	return layer
}

// wantNoLayer fails if a layer or a part of one exists.
func (p *fixture) wantNoLayer() {
	p.t.Helper()
	list, err := os.ReadDir(p.cfg.LayerDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Fatal(err)
	}
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), "lock") {
			p.t.Errorf("left behind: %s", e.Name())
		}
	}
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

func TestResolveInstallImport(t *testing.T) {
	p := newFixture(t)
	p.wheel("apple-1.0-py3-none-any", "banana>=2", file{name: "apple/__init__.py",
		text: "import banana\nfruits = [banana.name, __name__]\n"})
	p.wheel("banana-1.0-py3-none-any", "", file{name: "banana.py", text: "name = 'old'\n"})
	p.wheel("banana-2.1-py3-none-any", "", file{name: "banana.py", text: "name = 'new'\n"},
		file{name: "banana-2.1.data/purelib/extra.py", text: "1\n"}, file{name: "banana-2.1.data/scripts/banana", text: "#!python\n"},
		file{name: "banana-2.1.data/data/etc/banana", text: "x"}, file{name: "hook.pth", text: "import os; os.abort()\n"},
		file{name: "__pycache__/banana.cpython-314.pyc", text: "planted"}, file{name: "stray.pyc", text: "planted"},
		file{name: "banana-2.1.data/purelib/deep/stray.pyc", text: "planted"}, file{name: "templates/broken.py", text: "{{ no python }\n"})
	p.cfg.Requirements = []string{"apple"}
	first := p.lock()
	names := []string{}
	for _, pkg := range first.Packages {
		names = append(names, pkg.Name+" "+pkg.Version)
	}
	if d := cmp.Diff([]string{"apple 1.0", "banana 2.1"}, names); d != "" {
		t.Error(d)
	}
	text := read(t, p.cfg.LockFile)
	p.lock()
	if again := read(t, p.cfg.LockFile); again != text {
		t.Errorf("a second Resolve with the same input writes another lock file:\n%s\n%s", text, again)
	}
	if strings.Contains(text, p.dir) {
		t.Errorf("the lock file names directories of this machine:\n%s", text)
	}
	if _, _, err := packages.Open(t.Context(), p.cfg); fault.Hint(err) != "run `sandpiper packages install`" {
		t.Errorf("%v %s", err, fault.Hint(err))
	}
	layer := p.install()
	if d := cmp.Diff("['new', 'apple']", importing(t, layer, "import apple; print(apple.fruits)")); d != "" {
		t.Error(d)
	}
	want := []string{"__pycache__/banana.cpython-314.pyc", "__pycache__/extra.cpython-314.pyc", "apple/__init__.py",
		"apple/__pycache__/__init__.cpython-314.pyc", "banana.py", "extra.py", "templates/broken.py"}
	if d := cmp.Diff(want, tree(t, layer.Dir())); d != "" {
		t.Error(d)
	}
	opened, l, err := packages.Open(t.Context(), p.cfg)
	if err != nil || opened.Dir() != layer.Dir() || l.StaleReason(p.cfg) != "" {
		t.Errorf("%v %+v", err, l)
	}
	opened.Close()
	if d := cmp.Diff([]string{"apple", "banana"}, packages.Names(p.cfg)); d != "" {
		t.Error(d)
	}
}

// importing runs code with the layer on sys.path.
func importing(t *testing.T, layer *python.Layer, code string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(in.Dir(), "bin/python3.14"), "-I", "-S", "-B", "-c",
		"import sys; sys.path.append(sys.argv[1]); "+code, layer.Dir()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// tree lists the files of a layer without their metadata, and fails if one is not mode 0444.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if info, err := e.Info(); err != nil || info.Mode() != 0o444 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
		if !strings.Contains(name, ".dist-info/") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestResolveWheelDir(t *testing.T) {
	p := newFixture(t)
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py"})
	p.wheel("two-1.0-py3-none-any", "", file{name: "two.py"})
	if l := p.lock(); len(l.Packages) != 2 {
		t.Errorf("%+v", l.Packages)
	}
	p.wheel("three-1.0-py3-none-any", "", file{name: "three.py"})
	l, err := packages.ReadLock(p.cfg)
	if err != nil || !strings.Contains(l.StaleReason(p.cfg), "have changed since") {
		t.Errorf("%v %q", err, l.StaleReason(p.cfg))
	}
}

func TestResolveRequirementsFile(t *testing.T) {
	p := newFixture(t)
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py"})
	p.wheel("one-2.0-py3-none-any", "", file{name: "one.py"})
	p.cfg.RequirementsFile = filepath.Join(p.dir, "requirements.txt")
	write(t, p.cfg.RequirementsFile, "one<2  # comment\n")
	if l := p.lock(); len(l.Packages) != 1 || l.Packages[0].Version != "1.0" || l.StaleReason(p.cfg) != "" {
		t.Errorf("%+v", l.Packages)
	}
	write(t, p.cfg.RequirementsFile, "one\n")
	if l, err := packages.ReadLock(p.cfg); err != nil || l.StaleReason(p.cfg) == "" {
		t.Errorf("%v: StaleReason does not report a changed requirements file", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestResolveReportsMissingWheel(t *testing.T) {
	longtest.SkipSlow(t)
	p := newFixture(t)
	p.wheel("elsewhere-1.0-cp314-cp314-win_amd64", "", file{name: "elsewhere.py"})
	p.wheel("needy-1.0-py3-none-any", "absent>=3", file{name: "needy.py"})
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py"})
	for wanted, words := range map[string][]string{
		"elsewhere": {"no wheel of elsewhere for Python 3.14 on linux/"},
		"needy":     {"no wheel of absent>=3", "needy"},
		"nobody":    {"no wheel of nobody", "check the name"},
		"one==7":    {"no wheel of one==7", "versions that have one: 1.0"},
	} {
		p.cfg.Requirements = []string{wanted}
		_, err := packages.Resolve(t.Context(), p.cfg, in)
		wantFault(t, err, fault.NotFound, words...)
	}
	for _, wanted := range []string{"one one", "-e .", "", "one\ntwo", "one @ "} {
		p.cfg.Requirements = []string{wanted}
		_, err := packages.Resolve(t.Context(), p.cfg, in)
		wantFault(t, err, fault.Invalid)
	}
	if _, err := os.Stat(p.cfg.LockFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock file was written: %v", err)
	}
}

func TestResolveNeverBuilds(t *testing.T) {
	p := newFixture(t)
	ran := filepath.Join(p.dir, "ran")
	source := filepath.Join(p.dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(source, "setup.py"), fmt.Sprintf("open(%q, 'w')\nfrom setuptools import setup\nsetup(name='source', "+
		"version='1')\n", ran))
	write(t, filepath.Join(source, "pyproject.toml"), "[build-system]\nrequires = []\nbuild-backend = 'setup'\nbackend-path = "+
		"['.']\n[project]\nname = 'source'\ndynamic = ['version']\n")
	p.cfg.RequirementsFile = filepath.Join(p.dir, "requirements.txt")
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py"})
	for _, line := range []string{"./source", "-e ./source", "one @ file://" + p.cfg.WheelDir + "/one-1.0-py3-none-any.whl"} {
		write(t, p.cfg.RequirementsFile, line+"\n")
		_, err := packages.Resolve(t.Context(), p.cfg, in)
		wantFault(t, err, fault.Invalid, "only wheels")
	}
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("code of a package ran: %v", err)
	}
}

// A dependency by URL is refused before it is opened or downloaded, and a file that blocks is not opened.
func TestResolveRefusesDirectReferences(t *testing.T) {
	p := newFixture(t)
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	pipe := filepath.Join(p.dir, "two-1.0-py3-none-any.whl")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"file://" + pipe, server.URL + "/two-1.0-py3-none-any.whl", "git+" + server.URL + "/two",
		"git+file://" + p.dir} {
		p.wheel("one-1.0-py3-none-any", "two @ "+address, file{name: "one.py"})
		_, err := packages.Resolve(t.Context(), p.cfg, in)
		wantFault(t, err, fault.Invalid, "two is required by URL or path by one", "only wheels")
	}
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py"})
	p.cfg.Requirements = []string{"one"}
	p.cfg.RequirementsFile = filepath.Join(p.dir, "requirements.txt")
	write(t, p.cfg.RequirementsFile, "one\n-c limits.txt\n")
	write(t, filepath.Join(p.dir, "limits.txt"), "one @ "+server.URL+"/one-1.0-py3-none-any.whl\n")
	_, err := packages.Resolve(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Invalid, "one is required by URL or path", "only wheels")
	write(t, p.cfg.RequirementsFile, "one\n-r "+filepath.Base(pipe)+"\n")
	_, err = packages.Resolve(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Invalid, "not a regular file")
	if asked > 0 {
		t.Errorf("the server got %d requests", asked)
	}
	p.cfg.RequirementsFile = ""
	if err := os.Rename(pipe, filepath.Join(p.cfg.WheelDir, filepath.Base(pipe))); err != nil {
		t.Fatal(err)
	}
	p.cfg.Requirements = []string{"two"}
	_, err = packages.Resolve(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Invalid, "not a regular file")
}

func TestInstallRejectsChangedWheel(t *testing.T) {
	longtest.SkipSlow(t)
	p := newFixture(t)
	path := p.wheel("one-1.0-py3-none-any", "", file{name: "one.py", text: "honest = 1\n"})
	p.lock()
	whole := read(t, path)
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py", text: "honest = 0\n"})
	for what, text := range map[string]string{"another": read(t, path), "half": whole[:len(whole)/2], "empty": ""} {
		write(t, path, text)
		if _, _, err := packages.Install(t.Context(), p.cfg, in); err == nil || fault.KindOf(err) == fault.Internal {
			t.Errorf("%s: %v", what, err)
		}
		p.wantNoLayer()
	}
	write(t, path, whole)
	p.install()
}

func TestInstallRejectsUnsafeWheel(t *testing.T) {
	for name, c := range map[string]struct {
		files []file
		word  string
	}{
		"upward":      {[]file{{name: "../../evil.py"}}, "unsafe path"},
		"absolute":    {[]file{{name: "/etc/evil.py"}}, "unsafe path"},
		"backslashes": {[]file{{name: `..\..\evil.py`}}, "unsafe path"},
		"inner dots":  {[]file{{name: "a/../../evil.py"}}, "unsafe path"},
		"a new line":  {[]file{{name: "a\nb.py"}}, "unsafe path"},
		"a link":      {[]file{{name: "link.py", text: "/etc/passwd", mode: fs.ModeSymlink}}, "link or a device"},
		"a device":    {[]file{{name: "dev.py", mode: fs.ModeDevice}}, "link or a device"},
		"json":        {[]file{{name: "json/__init__.py"}}, "module json"},
		"a C module":  {[]file{{name: "math.cpython-314-x86_64-linux-gnu.so"}}, "module math"},
		"hidden json": {[]file{{name: "one-1.0.data/purelib/json.py"}}, "module json"},
		"servers":     {[]file{{name: "servers/github.py"}}, "module servers"},
		"skills":      {[]file{{name: "skills.py"}}, "module skills"},
		"sandpiper":   {[]file{{name: "sandpiper/lockdown.py"}}, "module sandpiper"},
		"both":        {[]file{{name: "a"}, {name: "a/b.py"}}, "would replace"},
		"both, later": {[]file{{name: "a/b.py"}, {name: "a"}}, "they differ"},
		"metadata":    {[]file{{name: "one-1.0.data/purelib/two-1.0.dist-info/METADATA"}}, "metadata of another package"},
		"an egg":      {[]file{{name: "one-1.0.data/purelib/two.egg-info/PKG-INFO"}}, "metadata of another package"},
		"a start":     {[]file{{name: "sitecustomize.py"}}, "module sitecustomize"},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains([]string{"upward", "json"}, name) {
				longtest.Skip(t)
			}
			p := newFixture(t)
			p.wheel("one-1.0-py3-none-any", "", c.files...)
			p.lock()
			_, _, err := packages.Install(t.Context(), p.cfg, in)
			wantFault(t, err, fault.Invalid, "one", c.word)
			p.wantNoLayer()
		})
	}
}

func TestInstallRejectsTooLargeWheel(t *testing.T) {
	p := newFixture(t)
	path := p.wheel("one-1.0-py3-none-any", "", file{name: "first.bin", text: "x"}, file{name: "second.bin", text: "x"})
	data := []byte(read(t, path))
	for _, name := range []string{"first.bin", "second.bin"} { // declares a size of 1.5 GiB
		at := bytes.LastIndex(data, []byte(name)) - 46 // its header in the directory of the archive
		if !bytes.HasPrefix(data[at:], []byte("PK\x01\x02")) {
			t.Fatal("the archive is not laid out as expected")
		}
		binary.LittleEndian.PutUint32(data[at+24:], 3<<29)
	}
	write(t, path, string(data))
	p.lock()
	_, _, err := packages.Install(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Invalid, "one", "unpacks to more than 2 GiB")
	p.wantNoLayer()
}

func TestInstallRejectsDamagedWheel(t *testing.T) {
	p := newFixture(t)
	path := p.wheel("one-1.0-py3-none-any", "", file{name: "one.py", text: strings.Repeat("x = 1\n", 1000)})
	data := []byte(read(t, path))
	at := bytes.Index(data, []byte("one.py")) + len("one.py") + 4 // in the compressed bytes
	data[at] ^= 0xff
	write(t, path, string(data))
	p.lock()
	_, _, err := packages.Install(t.Context(), p.cfg, in)
	if err == nil {
		t.Error("no error")
	}
	p.wantNoLayer()
}

func TestPackagesShareOnlyIdenticalFiles(t *testing.T) {
	p := newFixture(t)
	shared := file{name: "space/__init__.py", text: "same = 1\n"}
	p.wheel("one-1.0-py3-none-any", "", shared, file{name: "space/a.py"})
	p.wheel("two-1.0-py3-none-any", "", shared, file{name: "space/b.py"})
	p.lock()
	if got := importing(t, p.install(), "import space.a, space.b; print(space.same)"); got != "1" {
		t.Error(got)
	}
	p.wheel("two-1.0-py3-none-any", "", file{name: "space/__init__.py", text: "same = 2\n"})
	p.lock()
	_, _, err := packages.Install(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Invalid, "both one and two", "space/__init__.py")
}

// forged returns text of the same length and CRC-32 as that of a file: the last four bytes correct it.
func forged(t *testing.T, text, want string) string {
	t.Helper()
	table := crc32.MakeTable(crc32.IEEE)
	b := append([]byte(text), bytes.Repeat([]byte(" "), len(want)-len(text))...)
	start := len(b) - 4
	state := ^crc32.Checksum(b[:start], table)
	target := ^crc32.ChecksumIEEE([]byte(want))
	var index [4]byte
	for i := 3; i >= 0; i-- { // backwards: the entry of the table whose high byte is that of the state
		for n, e := range table {
			if e>>24 == target>>24 {
				index[i] = byte(n)
				target = (target ^ e) << 8
				break
			}
		}
	}
	for i, n := range index {
		b[start+i] = byte(state) ^ n
		state = state>>8 ^ table[n]
	}
	if crc32.ChecksumIEEE(b) != crc32.ChecksumIEEE([]byte(want)) {
		t.Fatal("the checksum was not forged")
	}
	return string(b)
}

func TestPackagesDoNotReplaceModulesOfOthers(t *testing.T) {
	p := newFixture(t)
	honest := "who = 'honest' # and a comment that is long enough\n"
	p.wheel("one-1.0-py3-none-any", "", file{name: "zzz.py", text: honest})
	p.wheel("two-1.0-py3-none-any", "", file{name: "two.pth", text: "import os"},
		file{name: "zzz.py", text: forged(t, "who='evil'#", honest)})
	p.lock()
	_, _, err := packages.Install(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Invalid, "both one and two", "zzz.py", "they differ")
	p.wantNoLayer()
	p.wheel("two-1.0-py3-none-any", "", file{name: "two-1.0.data/platlib/zzz/__init__.py"})
	p.lock()
	_, _, err = packages.Install(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Invalid, "one contains zzz.py and two contains zzz/__init__.py")
	p.wantNoLayer()
	p.wheel("two-1.0-py3-none-any", "", file{name: "two.pth", text: "import os"})
	p.lock()
	if found, _ := filepath.Glob(filepath.Join(p.install().Dir(), "*.pth")); len(found) > 0 {
		t.Errorf("installed %s", found)
	}
}

func TestOpenRejectsModifiedLayer(t *testing.T) {
	p := newFixture(t)
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py", text: "honest = 1\n"})
	p.lock()
	layer := p.install()
	path := filepath.Join(layer.Dir(), "one.py")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, path, "honest = 0\n")
	_, _, err := packages.Open(t.Context(), p.cfg)
	wantFault(t, err, fault.NotFound, "were changed", "sandpiper packages install")
	if got := importing(t, p.install(), "import one; print(one.honest)"); got != "1" {
		t.Error(got)
	}
}

func TestConcurrentInstall(t *testing.T) {
	p := newFixture(t)
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py", text: "honest = 1\n"})
	p.lock()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			layer, _, err := packages.Install(t.Context(), p.cfg, in)
			if err != nil {
				t.Error(err)
				return
			}
			layer.Close()
		})
	}
	wg.Wait()
	list, _ := filepath.Glob(filepath.Join(p.cfg.LayerDir, "*-*"))
	if len(list) != 2 { // the layer and its lock
		t.Errorf("%v", list)
	}
}

// stagingDirVar is an environment variable: its value is the directory in which the test binary starts to write a layer and blocks.
const stagingDirVar = "PACKAGES_TEST_HALF_WAY"

func blockInstall(dir string) int {
	i, err := python.Install(context.Background(), python.Config{Dir: filepath.Join(dir, "python")})
	if err != nil {
		panic(err)
	}
	_, err = i.EnsureLayer(context.Background(), python.LayerConfig{Dir: filepath.Join(dir, "layers"), Key: strings.Repeat("0", 16)},
		func(w *python.LayerWriter) error {
			if err := w.WriteFile("one.py", strings.NewReader("half = 1\n")); err != nil {
				return err
			}
			fmt.Println("begun")
			select {}
		})
	panic(err)
}

func TestInstallAfterKilledInstall(t *testing.T) {
	longtest.SkipSlow(t)
	p := newFixture(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), stagingDirVar+"="+p.dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 5)); n != 5 {
		t.Fatal(n, err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.cfg.LayerDir, ".staging-*")); len(left) != 1 {
		t.Errorf("staging directories: %v, want one", left)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py", text: "honest = 1\n"})
	p.lock()
	p.install()
	if left, _ := filepath.Glob(filepath.Join(p.cfg.LayerDir, ".staging-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInstallRejectsInvalidLockFile(t *testing.T) {
	p := newFixture(t)
	p.wheel("one-1.0-py3-none-any", "", file{name: "one.py"})
	p.lock()
	good := read(t, p.cfg.LockFile)
	hash := good[strings.Index(good, `sha256 = "`)+10:][:64]
	for what, c := range map[string]struct{ from, to, word string }{
		"no TOML":            {"[[packages]]", "[[packages", "line 6"},
		"another name":       {`name = "one-1.0-py3-none-any.whl"`, `name = "../one.whl"`, "../one.whl"},
		"no hash":            {hash, "", "no SHA-256"},
		"another version":    {`version = "1.0"`, `version = "1.0 --hash=x"`, "version"},
		"another format":     {`lock-version = "1.0"`, `lock-version = "9"`, "lock-version"},
		"another platform":   {`platform = "linux/`, `platform = "plan9/`, "is for plan9/"},
		"packages elsewhere": {"[[packages]]", "[[others]]", "0 packages"},
	} {
		write(t, p.cfg.LockFile, strings.Replace(good, c.from, c.to, 1))
		_, _, err := packages.Install(t.Context(), p.cfg, in)
		if err == nil || !strings.Contains(err.Error()+fault.Message(err), c.word) {
			t.Errorf("%s: %v does not contain %q", what, err, c.word)
		}
		wantFault(t, err, fault.Invalid, "sandpiper packages lock")
	}
	os.Remove(p.cfg.LockFile)
	_, _, err := packages.Install(t.Context(), p.cfg, in)
	wantFault(t, err, fault.NotFound, "no lock file", "sandpiper packages lock")
}

func TestResolveReportsUnreachableIndex(t *testing.T) {
	p := newFixture(t)
	p.cfg.WheelDir, p.cfg.Requirements = "", []string{"one"}
	t.Setenv("PIP_INDEX_URL", "http://someone:secret@127.0.0.1:9/simple")
	_, err := packages.Resolve(t.Context(), p.cfg, in)
	wantFault(t, err, fault.Unavailable, "cannot be reached", "PIP_INDEX_URL")
	if strings.Contains(fault.Message(err)+fault.Hint(err), "secret") {
		t.Error(err)
	}
}
