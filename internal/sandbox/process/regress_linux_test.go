package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// CPython's own tests, run by the embedded interpreter outside and inside the
// sandbox: what behaves differently inside is listed, with its reason, in
// testdata/regress/differences.txt. What fails on both sides (the tests are of
// a later patch release, and this interpreter lacks what only tests need) does
// not matter here.
//
// scripts/fetch-cpython-tests DIR fetches the tests, CPYTHON_TESTS
// names DIR, and REQUIRE_CPYTHON_TESTS turns the skip without it into a failure.
// CPYTHON_MODULES replaces the modules, to look at some alone.

// regressModules take the time of the longest together; those come first.
var regressModules = []string{
	"test_asyncio", "test_concurrent_futures", "test_multiprocessing_fork", "test_decimal", "test_subprocess", "test_threading", "test_csv",
	"test_json", "test_datetime", "test_math", "test_re", "test_sqlite3", "test_collections", "test_tempfile",
}

const (
	regressSeconds = "30" // how long one test may take before it counts as hung
	regressAtOnce  = 4    // modules, most of which wait most of the time
	notRun         = "absent"
)

// outcome is the result of one test on one side: ok, skip, fail, error, died,
// hung or absent.
type outcome struct{ verdict, note string }

func TestCPythonTestSuiteHasOnlyListedFailures(t *testing.T) {
	r := newRegress(t)
	modules := regressModules
	if m := os.Getenv("CPYTHON_MODULES"); m != "" {
		modules = strings.Fields(m)
	}
	reasons := readReasons(t)
	used := map[reason]bool{}
	outside, inside := r.all(modules)
	differing := difference(outside, inside)
	unlisted := slices.DeleteFunc(slices.Clone(differing), func(id string) bool {
		reason, ok := reasonFor(reasons, id, outside[id], inside[id])
		used[reason] = true
		return ok
	})
	t.Logf("%d tests outside, %d inside, %d differ, %d of them not as listed", len(outside), len(inside), len(differing), len(unlisted))
	// what differs once may be a matter of timing: it counts if it differs again
	for try := 0; try < 2 && len(unlisted) > 0; try++ {
		o, i := r.place(fmt.Sprintf("again%d", try)).only(unlisted)
		unlisted = slices.DeleteFunc(unlisted, func(id string) bool { return o[id].verdict == i[id].verdict && o[id].verdict != "" })
	}
	if fetched := r.testsVersion(); fetched != listedVersion && len(unlisted) > 0 {
		t.Skipf("the list of differences was made with the tests of %s, these are %s: %d more differ: %q", listedVersion, fetched,
			len(unlisted), unlisted)
	}
	for _, id := range unlisted {
		t.Errorf("%s %s %s\n\toutside: %s\n\tinside: %s", outside[id].verdict, inside[id].verdict, id, outside[id].note, inside[id].note)
	}
	for _, r := range reasons {
		if !used[r] && slices.Equal(modules, regressModules) {
			t.Errorf("no test differs any more as listed: %s : %s", r.pattern, r.note)
		}
	}
}

// listedVersion is the Debian package whose tests differences.txt was made with.
// That release moves on: with other tests more may differ, which is no defect.
const listedVersion = "3.14.10-1"

func (r *regress) testsVersion() string {
	b, err := os.ReadFile(filepath.Join(os.Getenv("CPYTHON_TESTS"), "VERSION"))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// regress runs tests with one interpreter on both sides.
type regress struct {
	*host
	b *Backend
}

func newRegress(t *testing.T) *regress {
	t.Helper()
	tests := os.Getenv("CPYTHON_TESTS")
	if tests == "" {
		if os.Getenv("REQUIRE_CPYTHON_TESTS") != "" {
			t.Fatal("CPYTHON_TESTS names no directory")
		}
		t.Skip("CPYTHON_TESTS names no directory that scripts/fetch-cpython-tests filled")
	}
	h := newHost(t)
	h.cfg.Python = withAdded(t, h.cfg.Python, filepath.Join(tests, "test"), "test")
	return &regress{host: h, b: h.backend(func(c *Config) { c.killUnlisted = true })}
}

// all runs each module in places of its own.
func (r *regress) all(modules []string) (outside, inside map[string]outcome) {
	r.t.Helper()
	outside, inside = map[string]outcome{}, map[string]outcome{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, regressAtOnce)
	for _, module := range modules {
		slots <- struct{}{}
		p := r.place(module)
		wg.Go(func() {
			defer func() { <-slots }()
			o, i := p.both(module)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(outside, o)
			maps.Copy(inside, i)
		})
	}
	wg.Wait()
	return outside, inside
}

// place is a directory on either side, alike but for where it lies.
type place struct {
	*regress
	spec  sandbox.Spec
	work  string // the workspace, on the host
	other string // what the outside has instead of it
}

func (r *regress) place(name string) place {
	r.t.Helper()
	p := place{regress: r, spec: r.host.spec(name), work: filepath.Join(r.cfg.Roots["workspaces"], name),
		other: filepath.Join(r.roots, "outside-"+name)}
	err := os.Mkdir(p.other, 0o700)
	if err == nil {
		err = os.Chown(p.other, p.uid(), -1)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	reachable(r.t, p.other)
	reachable(r.t, r.cfg.Python)
	for _, name := range []string{"run.py", "without.txt"} {
		p.copy(filepath.Join("testdata/regress", name), name)
	}
	return p
}

// uid is that of the tenant's files, which the outside runs under as well.
func (p place) uid() int {
	if p.spec.UID != 0 {
		return p.spec.UID
	}
	return os.Geteuid()
}

// copy puts a file on both sides.
func (p place) copy(from, to string) {
	p.t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(to, b)
}

func (p place) write(name string, content []byte) {
	p.t.Helper()
	for _, dir := range []string{p.work, p.other} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// withAdded copies an installed Python and adds what is in from to its library,
// where it is found however a test starts another interpreter.
func withAdded(t testing.TB, python, from, to string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "python")
	if err := os.CopyFS(dir, os.DirFS(python)); err != nil {
		t.Fatal(err)
	}
	to = filepath.Join(dir, "lib/python3.14", to)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// some of CPython's tests do not compile on purpose
	_ = exec.CommandContext(t.Context(), filepath.Join(dir, "bin/python3.14"), "-m", "compileall", "-q", "-j2", "--invalidation-mode",
		"unchecked-hash", to).Run()
	return dir
}

// reachable makes dir and its parents below our scratch directory searchable for every
// uid.
func reachable(t testing.TB, dir string) {
	t.Helper()
	for up := filepath.Dir(dir); up != "/" && up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

// only runs the tests of these ids.
func (p place) only(ids []string) (outside, inside map[string]outcome) {
	p.t.Helper()
	p.write("only.txt", []byte(strings.Join(ids, "\n")))
	return p.both("--only", "only.txt")
}

// both runs run.py with args on both sides at once.
func (p place) both(args ...string) (outside, inside map[string]outcome) {
	p.t.Helper()
	const log = "log"
	args = append([]string{"run.py", log, regressSeconds}, args...)
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { p.runOutside(ctx, args) })
	wg.Go(func() { p.runInside(ctx, args) })
	wg.Wait()
	return readLog(p.t, filepath.Join(p.other, log)), readLog(p.t, filepath.Join(p.work, log))
}

func (p place) runOutside(ctx context.Context, args []string) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.cfg.Python, "bin/python3.14"), args...)
	p.outside(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Errorf("outside: %v: %s", err, out)
	}
}

// outside gives cmd what a worker has: its environment and the tenant's uid.
func (p place) outside(cmd *exec.Cmd) {
	cmd.Dir = p.other
	cmd.Env = []string{
		"PATH=" + filepath.Join(p.cfg.Python, "bin"), "HOME=" + p.other, "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC", "USER=sandbox",
		"LOGNAME=sandbox",
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1", "PYTHONHASHSEED=0", "MALLOC_ARENA_MAX=2",
	}
	if p.spec.UID != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.spec.UID), Gid: uint32(p.spec.UID)}}
	}
}

const runInsideCode = `
import subprocess, sys
p = subprocess.run([sys.executable, *args], capture_output=True, text=True)
if p.returncode:
    raise SystemError(p.stderr[-2000:])
`

func (p place) runInside(ctx context.Context, args []string) {
	s, err := p.b.Open(ctx, p.spec)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer s.Close()
	vars, _ := json.Marshal(map[string]any{"args": args})
	out, err := s.Run(ctx, sandbox.Program{ID: "regress", Code: runInsideCode, Vars: vars}, sandbox.NoHost{})
	if err != nil || out.Status != sandbox.Completed {
		p.t.Errorf("inside: %v: %s: %s %s", err, out.Status, out.Error, out.Stderr)
	}
}

func readLog(t testing.TB, name string) map[string]outcome {
	all := map[string]outcome{}
	f, err := os.Open(name)
	if err != nil {
		t.Error(err)
		return all
	}
	defer f.Close()
	d := json.NewDecoder(f)
	for d.More() {
		var e struct {
			ID, Outcome, Note string
			Seconds           float64
		}
		if err := d.Decode(&e); err != nil {
			t.Errorf("%s: %v", name, err)
			return all
		}
		switch e.Outcome {
		case "started":
		case "time":
			t.Logf("%s: %s s in %s", e.ID, e.Note, path.Base(filepath.Dir(name)))
		default:
			if e.Seconds > 5 {
				t.Logf("%s: %.1f s", e.ID, e.Seconds)
			}
			all[e.ID] = outcome{e.Outcome, e.Note}
		}
	}
	return all
}

// difference lists the ids whose verdicts are not the same, in order.
func difference(outside, inside map[string]outcome) []string {
	var ids []string
	for id, o := range outside {
		if i, ok := inside[id]; !ok {
			inside[id] = outcome{notRun, ""}
			ids = append(ids, id)
		} else if i.verdict != o.verdict {
			ids = append(ids, id)
		}
	}
	for id := range inside {
		if _, ok := outside[id]; !ok {
			outside[id] = outcome{notRun, ""}
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// reason is a line of differences.txt: "outside inside id", where * is anything,
// and after " : " what the note of the inside contains. What stands above it,
// after #, is for the reader.
type reason struct{ pattern, note string }

func readReasons(t *testing.T) []reason {
	t.Helper()
	f, err := os.Open("testdata/regress/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var reasons []reason
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			pattern, note, _ := strings.Cut(line, " : ")
			reasons = append(reasons, reason{pattern, note})
		}
	}
	return reasons
}

func reasonFor(reasons []reason, id string, outside, inside outcome) (reason, bool) {
	line := outside.verdict + " " + inside.verdict + " " + id
	for _, r := range reasons {
		if ok, err := path.Match(r.pattern, line); ok && err == nil && strings.Contains(inside.note, r.note) {
			return r, true
		}
	}
	return reason{}, false
}
