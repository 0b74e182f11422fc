package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// expectIntact runs SQLite's complete check of all databases of tenants.
func expectIntact(t *testing.T, data string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(data, "private", "*", "tenant.db"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no databases: %v", err)
	}
	for _, path := range all {
		if err := store.CheckIntegrity(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A data directory is backed up while its daemon runs code, and restored on another machine: files,
// skills, sessions, tokens, an execution that waits for an approval, and the audit log. The backup has
// no private key.
func TestBackupOfRunningDaemonIsRestoredElsewhere(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	a := newApprovalClient(t, "2025-11-25", `{}`, "")
	a.sendCall("save_skill", `{"name":"double","code":"def run(x): return 2*x","description":"Doubles"}`, "")
	a.nextMessage()
	a.sendCall("execute_code", `{"code":"open('report.txt','w').write('of the customer')","session_id":"chat"}`, "")
	a.nextMessage()
	a.sendCode(strings.ReplaceAll(upsert("ada@example.com"), "@",
		`" "@" "`) + "\nfrom skills import double\nresult = [result[0], double.run(21), open('report.txt').read()]")
	m := a.nextMessage()
	r := m.result(t)
	if r.ErrorType != "approval_required" || len(r.Questions) != 1 {
		t.Fatalf("%+v", r)
	}
	token := firstToken(t, m.Result.Content[0].Text)
	data := filepath.Join(a.home, "data", "sandpiper")
	acme := filepath.Join(data, "acme", "certificates")
	if err := os.MkdirAll(acme, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(acme, "example.com.key"), []byte("PRIVATE KEY OF EXAMPLE.COM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := a.sandpiper("tenant", "key", "new", "local"); code != 0 {
		t.Fatal(out, errs)
	}

	// Code that writes files and session steps runs during the backup.
	a.sendCall("execute_code", `{"code":"import time\nend = time.monotonic() + 3\nn = 0\nwhile time.monotonic() < end:\n    n += 1\n    `+
		`with open('busy', 'w') as f: f.write('x' * (n % 9) * 50_000)\n    save_skill('s%d' % (n % 50), 'def run(): return %d' % n, `+
		`'busy')\nn","session_id":"chat","timeout_seconds":60}`, "")
	file := filepath.Join(t.TempDir(), "backup.tar")
	var last string
	for n := range 3 {
		last = fmt.Sprint(file, n)
		if out, errs, code := a.sandpiper("backup", last); code != 0 {
			t.Fatal(out, errs)
		}
	}
	a.nextMessage()
	backup, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(data, "key"))
	if err != nil || bytes.Contains(backup, key) || bytes.Contains(backup, []byte("PRIVATE KEY OF")) || bytes.Contains(backup,
		[]byte("ada@example.com")) {
		t.Errorf("the backup contains a key or a private value, %v", err)
	}
	if fi, err := os.Stat(last); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", fi.Mode(), err)
	}

	elsewhere := t.TempDir()
	if out, err := sandpiper(elsewhere, "restore", last).CombinedOutput(); err == nil || !strings.Contains(string(out),
		"needs the master key") {
		t.Errorf("without the key: %v %s", err, out)
	}
	if _, err := os.Lstat(filepath.Join(elsewhere, "data", "sandpiper")); err == nil {
		t.Error("a refused restore created the data directory")
	}
	if out, err := sandpiper(elsewhere, "restore", last, "--key", filepath.Join(data, "key")).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	b := &approvalClient{version: a.version, home: elsewhere, record: filepath.Join(elsewhere, "record")}
	config := fmt.Sprintf("servers:\n  crm: {command: %s/crm, args: [--record, %s]}\n", exampleServers(t), b.record)
	b.formClient = connect(t, elsewhere, config, "2025-11-25", `{}`)
	restored := filepath.Join(b.home, "data", "sandpiper")
	expectIntact(t, restored)
	if out, errs, _ := b.sandpiper("audit", "verify"); !strings.Contains(out, "intact") {
		t.Errorf("the audit log: %s%s", out, errs)
	}
	if _, err := os.Lstat(filepath.Join(restored, "acme")); err == nil {
		t.Error("keys of certificates were restored")
	}
	if out, _, _ := b.sandpiper("tenant", "key", "list"); !strings.Contains(out, "local") {
		t.Errorf("the API keys are %s", out)
	}
	if out, errs, _ := b.sandpiper("pii", "restore", token); !strings.Contains(out, "ada@example.com") {
		t.Errorf("the token is %s %s", out, errs)
	}
	if out, _, _ := b.sandpiper("session", "show", "chat"); !strings.Contains(out, "report.txt") {
		t.Errorf("the session is %s", out)
	}
	if out, errs, code := b.sandpiper("approvals", "approve", r.Questions[0].Approval); code != 0 {
		t.Fatal(out, errs)
	}
	end := b.resumeExecution(r.ID, "").result(t)
	if !end.Success || string(end.Result) != `[1,42,"of the customer"]` {
		t.Errorf("%+v", end)
	}
	if calls := b.serverCalls(); len(calls) != 1 || !strings.Contains(calls[0], "ada@example.com") {
		t.Errorf("the server was called with %q", calls)
	}
}

// backupHome is a directory with a data directory of two tenants, of whom one has a large file.
func backupHome(t *testing.T) (home string, run func(args ...string) (string, int)) {
	t.Helper()
	home = t.TempDir()
	run = func(args ...string) (string, int) {
		c := sandpiper(home, args...)
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	large := make([]byte, 64<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	if err := os.WriteFile(filepath.Join(home, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tenant", "create", "acme"}, {"tenant", "create", "Other"},
		{"files", "put", filepath.Join(home, "large"), "--tenant", "acme"}} {
		if out, code := run(args...); code != 0 {
			t.Fatal(args, out)
		}
	}
	return home, run
}

// killAt starts a command and kills it when a file appears.
func killAt(t *testing.T, c *exec.Cmd, pattern string) {
	t.Helper()
	killWhen(t, c, pattern+" existed", func() bool {
		found, _ := filepath.Glob(pattern)
		return len(found) > 0
	})
}

// killWhen starts a command and kills it when a state is reached.
func killWhen(t *testing.T, c *exec.Cmd, state string, reached func() bool) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			t.Fatalf("it ended before %s: %v", state, err)
		case <-time.After(time.Millisecond):
		}
		if reached() {
			break
		}
	}
	_ = c.Process.Kill()
	<-ended
}

// writesUnnamed reports whether a process has written to a file of a directory that has no name.
func writesUnnamed(pid int, dir string) bool {
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(open, func(fd string) bool {
		to, _ := os.Readlink(fd)
		fi, err := os.Stat(fd)
		return strings.HasPrefix(to, filepath.Join(dir, "#")) && err == nil && fi.Size() > 0
	})
}

// A killed backup leaves no file with its name. After a killed restore no command uses the
// directory, until the restore is repeated.
func TestKilledBackupAndRestore(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	home, run := backupHome(t)
	data, file := filepath.Join(home, "data", "sandpiper"), filepath.Join(home, "backup.tar")
	c := sandpiper(home, "backup", file)
	killWhen(t, c, "it wrote to a file without a name", func() bool { return writesUnnamed(c.Process.Pid, home) })
	if _, err := os.Lstat(file); err == nil {
		t.Error("a killed backup has its name")
	}
	if out, code := run("backup", file); code != 0 {
		t.Fatal(out)
	}
	key := filepath.Join(home, "key")
	if err := os.Rename(filepath.Join(data, "key"), key); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	killAt(t, sandpiper(home, "restore", file, "--key", key), filepath.Join(data, "workspaces", "acme"))
	for _, args := range [][]string{{"tenant", "list"}, {"files", "ls"}, {"tenant", "create", "third"}} {
		if out, code := run(args...); code == 0 || !strings.Contains(out, "sandpiper restore FILE") {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
	if out, code := run("restore", file, "--key", key); code != 0 {
		t.Fatal(out)
	}
	expectIntact(t, data)
	if out, _ := run("tenant", "list"); !strings.Contains(out, "acme") || !strings.Contains(out, "Other") || strings.Contains(out,
		"third") {
		t.Error(out)
	}
	got, err1 := os.ReadFile(filepath.Join(data, "workspaces", "acme", "large"))
	want, err2 := os.ReadFile(filepath.Join(home, "large"))
	if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
		t.Errorf("the file differs: %v, %v", err1, err2)
	}
}

// Files that are truncated, altered, of something else, of a newer version or of another key change
// nothing, for the whole directory and for one tenant.
func TestRestoreRefusesOtherFiles(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	home, run := backupHome(t)
	data, file := filepath.Join(home, "data", "sandpiper"), filepath.Join(home, "backup.tar")
	for _, at := range []string{filepath.Join(data, "b.tar"), filepath.Join(data, "workspaces", "acme", "b.tar")} {
		if out, code := run("backup", at); code == 0 || !strings.Contains(out, "in the data directory") {
			t.Error(out)
		}
	}
	if out, code := run("backup", filepath.Join(home, "none", "b.tar")); code == 0 {
		t.Error(out)
	}
	if out, code := run("backup", file); code != 0 {
		t.Fatal(out)
	}
	if out, code := run("backup", file); code == 0 || !strings.Contains(out, "exists already") {
		t.Error(out)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	altered := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	var newer bytes.Buffer
	tw := tar.NewWriter(&newer)
	manifest := `{"format":2,"key":"0123456789abcdef","version":"9.1"}`
	_ = tw.WriteHeader(&tar.Header{Name: "backup.json", Size: int64(len(manifest)), Mode: 0o600})
	_, _ = io.WriteString(tw, manifest)
	_ = tw.Close()
	other := t.TempDir()
	if out, err := sandpiper(other, "backup", filepath.Join(other, "b.tar")).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	foreign, err := os.ReadFile(filepath.Join(other, "b.tar"))
	if err != nil {
		t.Fatal(err)
	}
	key, empty := filepath.Join(data, "key"), t.TempDir()
	fresh := filepath.Join(empty, "data")
	if out, code := run("tenant", "delete", "acme", "--yes"); code != 0 {
		t.Fatal(out)
	}
	for _, c := range []struct {
		name, want string
		content    []byte
	}{
		{"empty", "not a file of sandpiper backup", nil},
		{"text", "not a file of sandpiper backup", []byte("hello")},
		{"zeros", "not a file of sandpiper backup", make([]byte, 10_000)},
		{"another archive", "not a file of sandpiper backup", tarOf("a.txt")},
		{"header only", "truncated", good[:1024]},
		{"half", "truncated", good[:len(good)/2]},
		{"without its end", "truncated", good[:len(good)-1]},
		{"longer", "truncated", append(bytes.Clone(good), '\n')},
		{"altered file", "truncated", altered(len(good) / 2)},
		{"altered end", "truncated", altered(len(good) - 5)},
		{"newer", "has format 2", newer.Bytes()},
		{"another key", "master key with fingerprint", foreign},
	} {
		bad := filepath.Join(home, "bad.tar")
		if err := os.WriteFile(bad, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := sandpiper(empty, "restore", bad, "--key", key).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "panic") {
			t.Errorf("%s: %v %s", c.name, err, out)
		}
		if left, err := os.ReadDir(fresh); err == nil {
			t.Fatalf("%s left %v", c.name, left)
		}
		if out, code := run("restore", bad, "--tenant", "acme"); code == 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d %s", c.name, code, out)
		}
	}
	if out, _ := run("tenant", "list"); strings.Contains(out, "acme") || !strings.Contains(out, "Other") {
		t.Error(out)
	}
	if out, code := run("restore", file, "--key", key); code == 0 || !strings.Contains(out, "is not empty") {
		t.Error(out)
	}
	if out, code := run("restore", file, "--tenant", "acme"); code != 0 {
		t.Error(out)
	}
}

func tarOf(name string) []byte {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	_ = tw.WriteHeader(&tar.Header{Name: name, Mode: 0o600})
	_ = tw.Close()
	return b.Bytes()
}

// The error of a damaged database names commands that restore the tenant. Backups of the others
// continue, and report what they lack.
func TestDamagedTenantIsRestoredWithTheCommandsOfItsError(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	home, run := backupHome(t)
	data, file := filepath.Join(home, "data", "sandpiper"), filepath.Join(home, "backup.tar")
	if out, code := run("backup", file); code != 0 {
		t.Fatal(out)
	}
	db := filepath.Join(data, "private", "acme", "tenant.db")
	if err := os.WriteFile(db, bytes.Repeat([]byte("no database. "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := run("backup", filepath.Join(home, "second.tar"), "--json")
	var report struct {
		Success bool
		Tenants int
		Missing []struct{ Tenant, Error string }
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&report); code != 1 || err != nil || report.Success || report.Tenants != 1 ||
		len(report.Missing) != 1 || report.Missing[0].Tenant != "acme" || !strings.Contains(report.Missing[0].Error, "damaged") {
		t.Errorf("%d %s", code, out)
	}
	if _, err := os.Lstat(filepath.Join(home, "second.tar")); err != nil {
		t.Error(err)
	}
	out, code = run("files", "ls", "--tenant", "acme")
	_, commands, ok := strings.Cut(out, "from a backup: ")
	if code == 0 || !ok {
		t.Fatal(out)
	}
	for command := range strings.SplitSeq(strings.Trim(strings.ReplaceAll(commands, "FILE", file), "`\n"), " && ") {
		if out, code := run(strings.Fields(command)[1:]...); code != 0 {
			t.Fatal(command, out)
		}
	}
	if out, code := run("files", "ls", "--tenant", "acme"); code != 0 || !strings.Contains(out, "large") {
		t.Error(out)
	}
	tier := filepath.Join(data, "private", "acme", "tier")
	if err := os.Mkdir(tier, 0o700); err != nil {
		t.Fatal(err)
	}
	out, code = run("backup", filepath.Join(home, "third.tar"))
	if code != 1 || !strings.Contains(out, "has 1 tenant,") || !strings.Contains(out,
		"tenant acme is not, or not completely, in the backup: the file tier of the tenant cannot be read") {
		t.Errorf("%d %s", code, out)
	}
	if out, code := run("tenant", "list"); code != 0 || !strings.Contains(out, "the file tier of the tenant cannot be read") ||
		!strings.Contains(out, "Other") {
		t.Errorf("%d %s", code, out)
	}
}

// Shredding does not reach a backup: what was deleted after it can be restored with the master key.
func TestBackupRestoresDeletedTenant(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := sandpiper(home, args...).CombinedOutput()
		if err != nil {
			t.Fatal(args, string(out))
		}
		return string(out)
	}
	if err := os.WriteFile(filepath.Join(home, "f"), []byte("ada@example.com"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "b.tar")
	run("files", "put", filepath.Join(home, "f"), "--tenant", "local")
	run("backup", file)
	run("tenant", "delete", "local", "--yes")
	run("restore", file, "--tenant", "local")
	if out := run("files", "cat", "f"); !strings.Contains(out, "ada@example.com") {
		t.Error(out)
	}
}
