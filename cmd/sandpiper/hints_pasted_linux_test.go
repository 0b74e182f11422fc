package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// paste runs the first command in backquotes that begins with words as a shell of the person does, in
// another directory and without the variables of the daemon.
func paste(t *testing.T, text, begin string) (stdout, stderr string) {
	t.Helper()
	m := regexp.MustCompile("`(" + regexp.QuoteMeta(begin) + "[^`]*)`").FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no command %q in %s", begin, text)
	}
	c := exec.Command("sh", "-c", m[1])
	c.Dir = t.TempDir()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SANDPIPER_") && !strings.HasPrefix(v, "XDG_DATA_HOME=") {
			c.Env = append(c.Env, v)
		}
	}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", m[1], err, &out, &errs)
	}
	return out.String(), errs.String()
}

// asShown returns JSON text with the backslashes that a person sees.
func asShown(text string) string { return strings.ReplaceAll(text, `\\`, `\`) }

// namedConfig writes a configuration with a data directory of its own, and returns its path, in
// which a shell needs quotes.
func namedConfig(t *testing.T, servers string) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "it's here")
	file = filepath.Join(dir, "own.yaml")
	text := fmt.Sprintf("data_dir: \"%s/data\"\n%s", dir, servers)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// The commands in hints work when they are pasted: with the id, the configuration, the tenant, and a
// limit that is larger than the one that was reached.
func TestHintsWorkInShell(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	record := filepath.Join(t.TempDir(), "ledger.txt")
	dir, file := namedConfig(t, fmt.Sprintf("servers:\n  ledger: {command: ledger, args: [%q], trusted: true}\n", record))
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command("sandpiper", args...)
		c.Dir = dir
		out, _ := c.CombinedOutput()
		return string(out)
	}
	run("tenant", "create", "acme", "--config", file)
	const slow = "import time\nfrom servers import ledger\nledger.add(n=1)\ntime.sleep(5)\n'done'"
	text := run("exec", "--config", "own.yaml", "--tenant", "acme", "--timeout", "3s", "-c", slow)
	if !strings.Contains(text, "--timeout 6s") {
		t.Error(text)
	}
	if out, _ := paste(t, text, "sandpiper executions resume exec_"); out != "done\n" {
		t.Error(out)
	}
	if got := entered(t, record); got[1] != 1 {
		t.Errorf("the calls are %v", got)
	}
	// Without a limit, code that had ended at one gets the largest that is allowed.
	text = run("exec", "--config", "own.yaml", "--timeout", "2s", "-c", slow)
	id := regexp.MustCompile(`exec_[a-z2-7]{26}`).FindString(text)
	if out := run("executions", "resume", id, "--config", "own.yaml"); out != "done\n" {
		t.Error(text, out)
	}
	text = run("executions", "resume", "exec_aaaaaaaaaaaaaaaaaaaaaaaaaa", "--config", "own.yaml", "--tenant", "acme", "--json")
	paste(t, asShown(text), "sandpiper executions list")
}

// So do the commands in the errors that code catches, and those of init and doctor.
func TestCommandsOfCaughtErrorsWorkInShell(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, file := namedConfig(t, "servers:\n  off: {command: ledger, args: [x], disabled: true}\n")
	const caught = "try:\n    call_tool('off', 'pay', n=1)\nexcept ToolError as e:\n    print(e)"
	run := func(code int, args ...string) string {
		t.Helper()
		return runIn(t, dir, code, append(args, "--config", "own.yaml")...)
	}
	text := run(0, "exec", "-c", caught)
	paste(t, text, "sandpiper servers enable off --config ")
	if text := run(0, "exec", "-c", caught); strings.Contains(text, "disabled") {
		t.Error(text)
	}
	run(0, "servers", "disable", "off")
	s := connectTo(t, dir, "2025-11-25", `{}`, "--config", file)
	args, _ := json.Marshal(map[string]string{"code": caught})
	s.sendCall("execute_code", string(args), "")
	paste(t, asShown(s.nextMessage().Result.Content[0].Text), "sandpiper servers enable off --config ")
	if next := runIn(t, dir, 0, "init", "--dry-run", "--config", "new.yaml"); !strings.Contains(next,
		"run sandpiper tools sync --config "+fault.ShellQuote(filepath.Join(dir, "new.yaml"))) {
		t.Error(next)
	}
	appendTo(t, file, "sandbox: {requirements: requirements.txt}\n")
	if err := os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte("six==1.17.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := run(0, "doctor"); !strings.Contains(text, "`sandpiper packages lock --config "+fault.ShellQuote(file)+"`") {
		t.Error(text)
	}
}

// The sentence for the person whose model cannot ask works in the person's shell.
func TestApprovalSentenceWorksInShell(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, profile := range []string{"standard", "passthrough"} {
		t.Run(profile, func(t *testing.T) {
			record := filepath.Join(t.TempDir(), "record")
			dir, file := namedConfig(t, fmt.Sprintf("servers:\n  crm: {command: %s/crm, args: [--record, %s]}\n", exampleServers(t),
				record))
			args := []string{"--tenant", "acme", "--profile", profile}
			if profile == "passthrough" { // the other configuration is named by a variable; see sandpiper
				if err := os.Rename(file, filepath.Join(dir, "sandpiper.yaml")); err != nil {
					t.Fatal(err)
				}
			} else {
				args = append(args, "--config", file)
			}
			p := connectTo(t, dir, "2025-11-25", `{}`, args...)
			call := func() string {
				if profile == "passthrough" {
					p.sendCall("upsert_contact", `{"email":"ada@example.com","name":"Ada"}`, "")
				} else {
					p.sendCall("execute_code", `{"code":"from servers import crm\ncrm.upsert_contact(email='ada@example.com', `+
						`name='Ada')"}`, "")
				}
				return p.nextMessage().Result.Content[0].Text
			}
			text := call()
			if out, _ := paste(t, asShown(text), "sandpiper approvals approve "); !strings.Contains(out, "approved: crm.upsert_contact") {
				t.Error(out)
			}
			if profile == "passthrough" {
				if text = call(); strings.Contains(text, "needs approval") {
					t.Error(text)
				}
				return
			}
			id := regexp.MustCompile(`exec_[a-z2-7]{26}`).FindString(text)
			p.sendCall("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, id), "")
			if text := p.nextMessage().Result.Content[0].Text; !strings.Contains(text, `"success":true`) {
				t.Error(text)
			}
		})
	}
}

// Over HTTP the link of the page precedes the command. A caller that authenticates does not see the
// path of the operator's configuration.
func TestApprovalSentenceHasLink(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	servers := fmt.Sprintf("servers:\n  crm: {command: %s/crm}\n", exampleServers(t))
	for name, c := range map[string]struct {
		config string
		header []string
		want   string
	}{
		"token": {"http: {tokens: {acme: 0123456789-of-acme}}\n", []string{"Authorization", "Bearer 0123456789-of-acme"},
			"open %s/approve/%[2]s, or run `sandpiper approvals approve %[2]s --tenant acme` (or deny)"},
		"open": {"", nil, "open %s/approve/%[2]s, or run `sandpiper approvals approve %[2]s --config "},
	} {
		t.Run(name, func(t *testing.T) {
			d := startServing(t, "", c.config+servers)
			for _, v := range []*visitor{d.visit(c.header...), d.visitOlder(c.header...)} {
				text := v.answer(`{"code":"from servers import crm\ncrm.upsert_contact(email='ada@example.com', name='Ada')"}`)
				asked := regexp.MustCompile(`approval_id\\*":\\*"([0-9a-z]{10})`).FindStringSubmatch(text)
				if asked == nil {
					t.Fatal(text)
				}
				if want := fmt.Sprintf(c.want, strings.TrimSuffix(d.url, "/mcp"), asked[1]); !strings.Contains(text, want) {
					t.Errorf("no %q in %s", want, text)
				}
				link := regexp.MustCompile(`http://[^ ,]+/approve/[0-9a-z]+`).FindString(text)
				res, err := http.Get(link)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s: %s", link, res.Status)
				}
			}
		})
	}
}

// The list of commands with the flag --tenant is that of the program.
func TestCompletedCommandsHaveTheirFlags(t *testing.T) {
	env := cli.New("", nil, io.Discard, io.Discard)
	env.ConfigFile = "/c.yaml"
	root := root(env, all.Features())
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		if !c.Runnable() || c.HasSubCommands() {
			return
		}
		env.Tenant = "acme"
		text := cli.Completed(env, "`"+c.CommandPath()+" X`")
		var flag *pflag.Flag
		if flag = c.Flag("tenant"); strings.Contains(text, "--tenant") && flag == nil {
			t.Errorf("%s has no flag --tenant: %s", c.CommandPath(), text)
		}
		if flag != nil && strings.HasPrefix(flag.Usage, "act on the data") && !strings.Contains(text,
			"--tenant acme") && !strings.HasPrefix(c.CommandPath(), "sandpiper serve") && !strings.HasPrefix(c.CommandPath(),
			"sandpiper pii") {
			t.Errorf("%s acts on a tenant: %s", c.CommandPath(), text)
		}
	}
	check(root)
}

// The commands in errors work when they are pasted: in those of the check before code runs, in
// ToolErrors, in lists without items and in errors of commands, if the configuration is named by a flag,
// by a variable or by the daemon of a client.
func TestCommandsInErrorsWorkInShell(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, named := namedConfig(t, fmt.Sprintf("servers:\n  crm: {command: %s/crm, disabled: true}\n", exampleServers(t)))
	file := filepath.Join(dir, "sandpiper.yaml")
	if err := os.Rename(named, file); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command("sandpiper", append(args, "--config", file)...)
		c.Dir = dir
		out, _ := c.CombinedOutput()
		return string(out)
	}
	run("tenant", "create", "acme")
	const imported, called = "from servers import crm", "call_tool('crm', 'find_contacts')"
	for name, said := range map[string]func() string{
		"check":     func() string { return run("exec", "--tenant", "acme", "-c", imported) },
		"ToolError": func() string { return run("exec", "--tenant", "acme", "-c", called) },
		"JSON":      func() string { return asShown(run("exec", "--json", "-c", called)) },
		"client by flag": func() string {
			p := connectTo(t, dir, "2025-11-25", `{}`, "--config", file)
			p.sendCall("execute_code", fmt.Sprintf(`{"code":%q}`, called), "")
			return asShown(p.nextMessage().Result.Content[0].Text)
		},
		"client by variable": func() string {
			p := connectTo(t, dir, "2025-11-25", `{}`) // see sandpiper
			p.sendCall("execute_code", fmt.Sprintf(`{"code":%q}`, imported), "")
			return asShown(p.nextMessage().Result.Content[0].Text)
		},
	} {
		paste(t, said(), "sandpiper servers enable crm")
		if text := run("servers", "disable", "crm"); !strings.Contains(text, "crm") {
			t.Fatalf("%s: %s", name, text)
		}
	}
	for _, c := range []struct{ command, hint string }{
		{"executions resume exec_aaaaaaaaaaaaaaaaaaaaaaaaaa --tenant acme", "sandpiper executions list"},
		{"executions list --tenant acme", "sandpiper executions list --background"},
		{"approvals show aaaaaaaaaa --tenant acme", "sandpiper approvals list"},
		{"pii disallow 1234567890 --tenant acme", "sandpiper pii allowed"},
		{"exec --tenant nobody -c 1", "sandpiper tenant list"},
	} {
		paste(t, run(strings.Fields(c.command)...), c.hint)
	}
}
