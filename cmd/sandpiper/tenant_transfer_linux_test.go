package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// A customer with files, skills, sessions, tokens and a suspended approval is exported, deleted, and
// imported on another machine, which has another master key. There a person approves the call,
// and the execution is resumed.
func TestTenantMovesToAnotherMachine(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	a := newApprovalClient(t, "2025-11-25", `{}`, "")
	a.sendCall("save_skill", `{"name":"double","code":"def run(x): return 2*x","description":"Doubles"}`, "")
	if m := a.nextMessage(); !strings.Contains(m.Result.Content[0].Text, `"success":true`) {
		t.Fatal(m.Result.Content[0].Text)
	}
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

	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	key, file := filepath.Join(a.home, "identity"), filepath.Join(a.home, "local.age")
	if err := os.WriteFile(key, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := a.sandpiper("tenant", "export", "local", "--out", file, "--recipient", identity.Recipient().String()); code == 0 ||
		!strings.Contains(errs, "tenant suspend local") {
		t.Errorf("an active tenant: %d %s", code, errs)
	}
	for _, args := range [][]string{
		{"tenant", "suspend", "local"}, {"tenant", "export", "local", "--out", file, "--recipient", identity.Recipient().String()},
		{"tenant", "delete", "local", "--yes"},
	} {
		if _, errs, code := a.sandpiper(args...); code != 0 {
			t.Fatal(args, errs)
		}
	}
	fi, err := os.Stat(file)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", fi.Mode(), err)
	}

	b := newApprovalClient(t, "2025-11-25", `{}`, "")
	if out, errs, code := b.sandpiper("tenant", "import", file, "--identity", key); code != 0 {
		t.Fatal(out, errs)
	}
	if _, errs, code := b.sandpiper("tenant", "import", file, "--identity", key); code == 0 || !strings.Contains(errs, "exists already") {
		t.Errorf("the second import: %d %s", code, errs)
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
	if calls := b.serverCalls(); len(calls) != 1 || !strings.Contains(calls[0], "ada@example.com") || len(a.serverCalls()) != 0 {
		t.Errorf("the servers were called with %q and %q", a.serverCalls(), calls)
	}
}

// firstToken returns the first token of an email address in a text.
func firstToken(t *testing.T, text string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "[EMAIL_")
	id, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		t.Fatalf("no token in %s", text)
	}
	return "[EMAIL_" + id + "]"
}

// An altered file, one of another recipient and one that is no export create nothing, and an export
// never replaces a file.
func TestImportRefusesAlteredFile(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	home := t.TempDir()
	run := func(args ...string) (string, int) {
		c := sandpiper(home, args...)
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	must := func(args ...string) {
		t.Helper()
		if out, code := run(args...); code != 0 {
			t.Fatal(args, out)
		}
	}
	pass, file := filepath.Join(home, "pass"), filepath.Join(home, "acme.age")
	if err := os.WriteFile(pass, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must("tenant", "create", "acme")
	must("tenant", "suspend", "acme")
	must("tenant", "export", "acme", "--out", file, "--passphrase-file", pass)
	if out, code := run("tenant", "export", "acme", "--out", file, "--passphrase-file", pass); code == 0 || !strings.Contains(out,
		"exists already") {
		t.Error(out)
	}
	must("tenant", "delete", "acme", "--yes")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"truncated": good[:len(good)-1], "half": good[:len(good)/2], "header": good[:50], "empty": nil, "text": []byte("hello"),
		"altered":    append(bytes.Clone(good[:len(good)-40]), append([]byte{good[len(good)-40] ^ 1}, good[len(good)-39:]...)...),
		"lengthened": append(bytes.Clone(good), 'x'),
	} {
		if name != "truncated" && name != "altered" && !longtest.Enabled() { // each derives a key
			continue
		}
		bad := filepath.Join(home, "bad-"+name)
		if err := os.WriteFile(bad, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := run("tenant", "import", bad, "--passphrase-file", pass); code == 0 || strings.Contains(out, "panic") {
			t.Errorf("%s: %s", name, out)
		}
		if out, _ := run("tenant", "list"); strings.Contains(out, "acme") {
			t.Fatalf("%s created a tenant", name)
		}
	}
	if err := os.WriteFile(pass, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := run("tenant", "import", file, "--passphrase-file", pass); code == 0 || !strings.Contains(out,
		"another recipient or passphrase") {
		t.Error(out)
	}
}
