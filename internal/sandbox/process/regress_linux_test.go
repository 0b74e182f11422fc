package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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
// scripts/fetch-cpython-tests DIR fetches the tests, SANDPIPER_CPYTHON_TESTS
// names DIR, and REQUIRE_CPYTHON_TESTS turns the skip without it into a failure.
// SANDPIPER_CPYTHON_MODULES replaces the modules, to look at some alone.

// regressModules are run one after the other, on both sides at once.
var regressModules = []string{
	"test_json", "test_re", "test_math", "test_datetime", "test_collections", "test_decimal", "test_csv", "test_sqlite3",
	"test_asyncio", "test_threading", "test_concurrent_futures", "test_multiprocessing_fork", "test_tempfile", "test_subprocess",
}

// regressSeconds is how long one test may take before it counts as hung.
const regressSeconds = "30"

// outcome is what became of one test on one side.
type outcome struct{ verdict, note string }

const notRun = "absent" // no such test was run on that side

func TestCPythonsOwnTestsSeeOnlyTheListedDifferences(t *testing.T) {
	r := newRegress(t)
	modules := regressModules
	if m := os.Getenv("SANDPIPER_CPYTHON_MODULES"); m != "" {
		modules = strings.Fields(m)
	}
	outside, inside := r.both(modules...)
	differing := difference(outside, inside)
	// what differs once may be a matter of timing: it counts if it differs again
	for range 2 {
		if len(differing) == 0 {
			break
		}
		o, i := r.both("--only", r.list(differing))
		differing = slices.DeleteFunc(differing, func(id string) bool { return o[id].verdict == i[id].verdict && o[id].verdict != "" })
		merge(outside, o)
		merge(inside, i)
	}
	t.Logf("%d tests outside, %d inside, %d differ", len(outside), len(inside), len(differing))
	used := map[string]bool{}
	for _, id := range differing {
		line := fmt.Sprintf("%s %s %s", outside[id].verdict, inside[id].verdict, id)
		if pattern := reasonFor(r.reasons, line); pattern != "" {
			used[pattern] = true
			continue
		}
		t.Errorf("%s\n\toutside: %s\n\tinside: %s", line, outside[id].note, inside[id].note)
	}
	for _, pattern := range r.reasons {
		if !used[pattern] && slices.Equal(modules, regressModules) {
			t.Errorf("no test differs any more as listed: %s", pattern)
		}
	}
}

// regress runs the tests of one interpreter on both sides.
type regress struct {
	*host
	b       *Backend
	spec    sandbox.Spec
	work    string // the workspace on the host
	other   string // what the outside has instead of it
	logs    int
	reasons []string
}

func newRegress(t *testing.T) *regress {
	t.Helper()
	tests := os.Getenv("SANDPIPER_CPYTHON_TESTS")
	if tests == "" {
		if os.Getenv("REQUIRE_CPYTHON_TESTS") != "" {
			t.Fatal("SANDPIPER_CPYTHON_TESTS names no directory")
		}
		t.Skip("SANDPIPER_CPYTHON_TESTS names no directory that scripts/fetch-cpython-tests filled")
	}
	h := newHost(t)
	h.cfg.Python = withAdded(t, h.cfg.Python, filepath.Join(tests, "test"), "test")
	r := &regress{host: h, b: h.backend(func(c *Config) { c.loud = true }), spec: h.spec("regress"), other: filepath.Join(h.roots, "outside"), reasons: readReasons(t)}
	r.work = filepath.Join(h.cfg.Roots["workspaces"], "regress")
	if err := os.Mkdir(r.other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(r.other, r.uid(), -1); err != nil {
		t.Fatal(err)
	}
	reachable(t, r.other)
	reachable(t, h.cfg.Python)
	for _, dir := range []string{r.work, r.other} {
		for _, name := range []string{"run.py", "without.txt"} {
			copyFile(t, filepath.Join("testdata/regress", name), filepath.Join(dir, name))
		}
	}
	return r
}

// uid is that of the tenant's files, which the outside runs under as well.
func (r *regress) uid() int {
	if r.spec.UID != 0 {
		return r.spec.UID
	}
	return os.Geteuid()
}

// withAdded copies an installed Python and adds what is in from to its library,
// where it is found however a test starts another interpreter.
func withAdded(t *testing.T, python, from, to string) string {
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
	_ = exec.CommandContext(t.Context(), filepath.Join(dir, "bin/python3.14"), "-m", "compileall", "-q", "-j2", "--invalidation-mode", "unchecked-hash", to).Run()
	return dir
}

// reachable lets every uid pass on the way to dir, beneath our own scratch.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for up := filepath.Dir(dir); up != "/" && up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// list writes ids where both sides can read them, and returns the file's name
// in the working directory.
func (r *regress) list(ids []string) string {
	name := fmt.Sprintf("only-%d", r.logs)
	for _, dir := range []string{r.work, r.other} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(ids, "\n")), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	return name
}

// both runs run.py with args on both sides at once.
func (r *regress) both(args ...string) (outside, inside map[string]outcome) {
	r.t.Helper()
	r.logs++
	log := fmt.Sprintf("log-%d", r.logs)
	args = append([]string{"run.py", log, regressSeconds}, args...)
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { r.runOutside(ctx, args) })
	wg.Go(func() { r.runInside(ctx, args) })
	wg.Wait()
	return readLog(r.t, filepath.Join(r.other, log)), readLog(r.t, filepath.Join(r.work, log))
}

func (r *regress) runOutside(ctx context.Context, args []string) {
	cmd := exec.CommandContext(ctx, filepath.Join(r.cfg.Python, "bin/python3.14"), args...)
	cmd.Dir = r.other
	cmd.Env = r.environment()
	if r.spec.UID != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(r.spec.UID), Gid: uint32(r.spec.UID)}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Errorf("outside: %v: %s", err, out)
	}
}

// environment is what a worker has, for the outside.
func (r *regress) environment() []string {
	return []string{
		"PATH=" + filepath.Join(r.cfg.Python, "bin"), "HOME=" + r.other, "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC", "USER=sandbox", "LOGNAME=sandbox",
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1", "MALLOC_ARENA_MAX=2",
	}
}

const runInsideCode = `
import subprocess, sys
p = subprocess.run([sys.executable, *args], capture_output=True, text=True)
if p.returncode:
    raise SystemError(p.stderr[-2000:])
`

func (r *regress) runInside(ctx context.Context, args []string) {
	s, err := r.b.Open(ctx, r.spec)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer s.Close()
	vars, _ := json.Marshal(map[string]any{"args": args})
	out, err := s.Run(ctx, sandbox.Program{ID: "regress", Code: runInsideCode, Vars: vars}, silent{})
	if err != nil || out.Status != sandbox.Completed {
		r.t.Errorf("inside: %v: %s: %s %s", err, out.Status, out.Error, out.Stderr)
	}
}

func readLog(t testing.TB, name string) map[string]outcome {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]outcome{}
	d := json.NewDecoder(f)
	for d.More() {
		var e struct{ ID, Outcome, Note string }
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		switch e.Outcome {
		case "started":
		case "time":
			t.Logf("%s: %s s in %s", e.ID, e.Note, path.Base(filepath.Dir(name)))
		default:
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

func merge(into, from map[string]outcome) {
	for id, o := range from {
		into[id] = o
	}
}

// readReasons returns the patterns of differences.txt: "outside inside id",
// with * for anything. What stands above them, after #, is their reason.
func readReasons(t *testing.T) []string {
	t.Helper()
	f, err := os.Open("testdata/regress/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var patterns []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	return patterns
}

func reasonFor(patterns []string, line string) string {
	for _, p := range patterns {
		if ok, err := path.Match(p, line); ok && err == nil {
			return p
		}
	}
	return ""
}
