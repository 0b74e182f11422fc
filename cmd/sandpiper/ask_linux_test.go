package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// terminal is a pseudo-terminal with a command.
type terminal struct {
	t    *testing.T
	ours *os.File
	said bytes.Buffer
	cmd  *exec.Cmd
}

// newTerminal runs a command at a terminal, with the data in dir.
func newTerminal(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	defer theirs.Close()
	p := &terminal{t: t, ours: ours, cmd: sandpiper(dir, args...)}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs, theirs, theirs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p
}

// waitFor reads until a text appears, and returns the output before it.
func (p *terminal) waitFor(text string) string {
	p.t.Helper()
	for b := make([]byte, 4096); ; {
		if before, after, ok := strings.Cut(p.said.String(), text); ok {
			p.said.Reset()
			p.said.WriteString(after)
			return before
		}
		n, err := p.ours.Read(b)
		p.said.Write(b[:n])
		if err != nil {
			p.t.Fatalf("want %q in the output, got %q", text, p.said.String())
		}
	}
}

func (p *terminal) types(line string) {
	p.t.Helper()
	if _, err := p.ours.WriteString(line + "\n"); err != nil {
		p.t.Fatal(err)
	}
}

func TestExecShowsThatCodeRuns(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	const code = "import time\ntime.sleep(1.3)\nprogress(1, 4, 'rows')\ntime.sleep(0.2)\nprogress(2, 4, " +
		"'rows')\ntime.sleep(1.2)\nprint('out')\ntime.sleep(1.5)\n'end'"
	p := newTerminal(t, t.TempDir(), "exec", "-c", code)
	p.waitFor("\r\x1b[2mrunning (")
	p.waitFor("\r\x1b[2m█████░░░░░░░░░░░░░░░ 25 % rows (")
	p.waitFor("\r\x1b[2m██████████░░░░░░░░░░ 50 % rows (")
	p.waitFor("\r\x1b[Kout\r\n") // the line is cleared for output
	p.waitFor("50 % rows (")
	p.waitFor("\r\x1b[Kend\r\n")
	if _, err := p.ours.Read(make([]byte, 1)); err == nil {
		t.Error("something follows the result")
	}

	var out, errs bytes.Buffer
	cmd := sandpiper(t.TempDir(), "exec", "-c", "import time\nprogress(1, 2)\ntime.sleep(1.2)\n1")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || out.String() != "1\n" || errs.Len() > 0 {
		t.Errorf("without a terminal: %v, %q, %q", err, &out, &errs)
	}
}

// The person named the client: neither Enter nor keeping sandpiper.yaml leaves it out.
func TestInitAddsToTheNamedClient(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	if err := os.MkdirAll(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), []byte(`{"mcpServers": {"x": {"url": "https://example.com/mcp"}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := newTerminal(t, home, "init", "--apply", "claude-code")
	p.waitFor("[Y/n]")
	p.types("n")
	p.waitFor(".claude.json (Claude Code)? [Y/n]")
	p.types("")
	p.waitFor("Claude Code: changed")
	if got, err := os.ReadFile(filepath.Join(home, ".claude.json")); err != nil || !strings.Contains(string(got), `"serve"`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestExecutionTimeLeavesOutThePerson(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	home := t.TempDir()
	p := newTerminal(t, home, "exec", "--session", "s1", "-c", "ask('Which month?')")
	p.waitFor("Which month?")
	time.Sleep(5 * time.Second) // the machine may be slow
	p.types("May")
	p.waitFor("May") // echoed
	p.waitFor("May")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	out, err := sandpiper(home, "audit", "tail", "--json").CombinedOutput()
	m := regexp.MustCompile(`"execution"[^\n]*"duration_ns":(\d+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%v: %s", err, out)
	}
	if took, _ := strconv.ParseInt(string(m[1]), 10, 64); took > int64(4*time.Second) {
		t.Errorf("the execution took %v", time.Duration(took))
	}
}

// The command that shows all of a long call works when pasted: it names the configuration.
func TestQuestionNamesTheConfiguration(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "other.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "servers: {crm: {command: %s/crm}}\n", exampleServers(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newTerminal(t, dir, "exec", "--config", file, "-c",
		`from servers.crm import upsert_many; upsert_many(contacts=[{"email": f"p{i}@example.com"} for i in range(50)])`)
	p.waitFor("NOT ALL of the ")
	shown := p.waitFor("no, with a reason):")
	if !regexp.MustCompile("`sandpiper approvals show [a-z0-9]+ --config " + regexp.QuoteMeta(file) + "`").MatchString(shown) {
		t.Errorf("no complete command in %s", shown)
	}
	p.types("no")
}

func TestProgressLine(t *testing.T) {
	for want, p := range map[string]live.Progress{
		"████████████████████ 100 % all": {Done: 7, Total: 5, Message: "all"},
		"░░░░░░░░░░░░░░░░░░░░ 0 %":       {Done: -1, Total: 5},
		"7 pages":  {Done: 7, Message: "pages"},
		"starting": {Message: "starting"},
	} {
		if got := cli.ProgressLine(p); got != want {
			t.Errorf("%+v is %q, want %q", p, got, want)
		}
	}
}

func TestCommandShowsWhatItWaitsFor(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "sandpiper.yaml"), []byte("servers:\n  slow: {command: sh, args: [-c, sleep 3]}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := newTerminal(t, home, "tools", "list")
	p.waitFor("waiting for slow (1 s)")
	p.waitFor("\r\x1b[K") // the line is removed
	p.waitFor("slow")
}

func TestExecAsksForApprovalAtTheTerminal(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	home := t.TempDir()
	record := filepath.Join(home, "record")
	if err := os.WriteFile(filepath.Join(home, "sandpiper.yaml"),
		fmt.Appendf(nil, "servers:\n  crm: {command: %s/crm, args: [--record, %s]}\n", exampleServers(t), record), 0o600); err != nil {
		t.Fatal(err)
	}
	code := upsert("a@example.com", "b@example.com", "c@example.com", "d@example.com")
	p := newTerminal(t, home, "exec", "-c", code)
	const prompt = "crm.upsert_contact: approve (yes | execution | always | no, with a reason):"
	p.waitFor(`"email": "a@example.com"`)
	p.waitFor(prompt)
	for _, unclear := range []string{"yse", "", "maybe", "yes, but only this one", "execution, but only this one", "session"} {
		p.types(unclear)
		p.waitFor("type yes, execution, always, or no and a reason:")
	}
	p.types("yes")
	p.waitFor(`"email": "b@example.com"`)
	p.waitFor(prompt)
	p.types("no, she left")
	// the third is answered by another command while the prompt waits for a line
	p.waitFor(`"email": "c@example.com"`)
	p.waitFor("Approval ")
	p.waitFor("The code that asks (exec_")
	p.waitFor("    try: result.append(crm.upsert_contact(")
	p.waitFor(prompt)
	out, err := sandpiper(home, "approvals", "list").CombinedOutput()
	if err != nil {
		t.Fatal(string(out), err)
	}
	if out, err = sandpiper(home, "approvals", "deny", strings.Fields(string(out))[0]).CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	p.waitFor(`"email": "d@example.com"`)
	p.waitFor("answered elsewhere; press Enter")
	p.types("yes")
	p.types("yes")
	p.waitFor(`"crm.upsert_contact was not called: the user declined: she left"`)
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(record)
	if calls := string(b); err != nil || strings.Count(calls, "\n") != 2 || !strings.Contains(calls, "a@") || !strings.Contains(calls,
		"d@") {
		t.Errorf("the server was called with %s, %v", b, err)
	}

	if all := command(t, home, "approvals", "list", "--all"); strings.Count(all, "approved at the command line, used") != 2 ||
		strings.Count(all, "denied at the command line") != 2 {
		t.Error(all)
	}

	// one answer for all calls of an execution, and one for all calls
	both := upsert("e@example.com", "f@example.com")
	p = newTerminal(t, home, "exec", "-c", both)
	p.waitFor(`also every other call of "crm.upsert_contact" by this execution, with ANY arguments`)
	p.waitFor(prompt)
	p.types("execution")
	p.waitFor("  1\r\n]")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	p = newTerminal(t, home, "exec", "-c", both)
	p.waitFor(prompt)
	p.types("always")
	p.waitFor(`This adds the rule {tool: "crm.upsert_contact", decision: allow}.`)
	p.waitFor("Add the rule? [y/N]")
	p.types("")
	p.waitFor("type yes, execution, always, or no")
	if grants := command(t, home, "approvals", "grants"); strings.Contains(grants, "always") {
		t.Error("the rule was added without a confirmation:", grants)
	}
	p.types("always")
	p.waitFor("Add the rule? [y/N]")
	p.types("y")
	p.waitFor("  1\r\n]")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if out, err := sandpiper(home, "exec", "-c", both).CombinedOutput(); err != nil || strings.Contains(string(out), "was not called") {
		t.Errorf("asked again: %v: %s", err, out)
	}
	revoked := regexp.MustCompile(`(\S+)  crm.upsert_contact  always: `).FindStringSubmatch(command(t, home, "approvals", "grants"))
	if revoked == nil {
		t.Fatal("no rule is listed")
	}
	command(t, home, "approvals", "revoke", revoked[1])

	// without a terminal, the error names the remedy
	out, err = sandpiper(home, "exec", "-c", "from servers import crm; crm.upsert_contact(email='a@example.com')").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "there is no terminal to ask for approval") {
		t.Errorf("%v: %s", err, out)
	}
	if all := command(t, home, "approvals", "list", "--all"); !strings.Contains(all,
		"denied: nobody could be asked: there is no terminal") {
		t.Error(all)
	}
}

func TestDeclinedInitListsNoVariables(t *testing.T) {
	home := t.TempDir()
	writeTestFile(t, filepath.Join(home, ".cursor/mcp.json"), `{"mcpServers": {"x": {"command": "x", "env": {"X_TOKEN": "tok-of-x"}}}}`)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	p := newTerminal(t, home, "init")
	p.waitFor("Write ")
	p.types("n")
	p.waitFor("was not written.")
	_ = p.cmd.Wait()
	rest, _ := io.ReadAll(p.ours) // fails at the end of the terminal
	if text := p.said.String() + string(rest); strings.Contains(text, "Set these") || !strings.Contains(text,
		"To add Sandpiper to a client") {
		t.Errorf("init printed %s", text)
	}
}

func TestExecSavesImagesAtTheTerminal(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "image-1.png"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	p := newTerminal(t, home, "exec", "-c", `import base64; result = "[picture]"; show(base64.b64decode("`+pixel+`"))`)
	p.waitFor("[image: image/png, 70 bytes, saved as image-2.png]")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if rest, _ := io.ReadAll(p.ours); strings.Contains(p.said.String()+string(rest), "[picture]") { // fails at the end of the terminal
		t.Error("the image is reported twice")
	}
	want, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(home, "image-2.png")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(home, "image-1.png")); err != nil || string(got) != "mine" {
		t.Errorf("the existing file is %q, %v", got, err)
	}
}
