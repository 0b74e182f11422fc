//go:build unix

package guardrail_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// script returns the command of a shell script.
func script(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", path}
}

func judge(t *testing.T, h guardrail.HookConfig, e guardrail.Event) guardrail.HookDecision {
	t.Helper()
	if h.Timeout == 0 {
		h.Timeout = time.Minute
	}
	return newGuard(t, guardrail.Config{Hooks: []guardrail.HookConfig{h}}).RunHooks(t.Context(), e)
}

var aCall = guardrail.Event{Type: guardrail.BeforeCall, Tenant: "local", Server: "crm", Tool: "delete",
	Arguments: json.RawMessage(`{"id":5}`)}

func TestCommandHookDecides(t *testing.T) {
	for output, want := range map[string]guardrail.Decision{
		`{"decision":"allow"}`: {Action: guardrail.Allow},
		`{"decision": "block", "reason": "not on\u000a Sundays"}`: {Action: guardrail.Block, Reason: "not on Sundays"},
		`{"decision":"ask","reason":"sure?","more":1}`:            {Action: guardrail.Ask, Reason: "sure?"},
	} {
		got := judge(t, guardrail.HookConfig{On: guardrail.BeforeCall, Command: script(t, "cat >/dev/null; printf '%s' '"+output+"'")},
			aCall)
		if d := cmp.Diff(want, got.Decision); d != "" {
			t.Errorf("%s: %s", output, d)
		}
	}
}

func TestCommandHookReceivesEvent(t *testing.T) {
	at := filepath.Join(t.TempDir(), "event")
	e := aCall
	e.Type, e.Execution, e.Session = guardrail.AfterCall, "exec_1", "s"
	e.Result, e.Error = json.RawMessage(`{"ok":true}`), "no"
	t.Setenv("SANDPIPER_HTTP_TOKEN", "hidden")
	judge(t, guardrail.HookConfig{On: guardrail.AfterCall, Command: script(t,
		"cat > "+at+"; env >> "+at+"; echo '{\"decision\":\"allow\"}'")}, e)
	b, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"event":"after_tool_call","tenant":"local","execution":"exec_1","session":"s","server":"crm","tool":"delete","arguments":{"id":5},"result":{"ok":true},"error":"no"}`
	if !strings.HasPrefix(string(b), want) || strings.Contains(string(b), "hidden") {
		t.Errorf("%s", b)
	}
}

func TestCommandHookFailureBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		why     string
	}{
		"hangs":               {script(t, "sleep 600"), "did not answer within"},
		"ignores signals":     {script(t, "trap '' TERM INT HUP; sleep 600; sleep 600"), "did not answer within"},
		"crashes":             {script(t, `echo '{"decision":"allow"}'; kill -SEGV $$`), "ended with signal: segmentation fault"},
		"exits with status 3": {script(t, `echo '{"decision":"allow"}'; exit 3`), "ended with exit status 3"},
		"no output":           {script(t, "exit 0"), "it must write"},
		"not JSON":            {script(t, "echo yes"), "it must write"},
		"two objects":         {script(t, `echo '{"decision":"allow"}{"decision":"block"}'`), "it must write"},
		"duplicate key":       {script(t, `echo '{"decision":"block","decision":"allow"}'`), "it must write"},
		"wrong case of key":   {script(t, `echo '{"Decision":"allow"}'`), "it must write"},
		"reason is a number":  {script(t, `echo '{"decision":"allow","reason":5}'`), "it must write"},
		"unknown decision":    {script(t, `echo '{"decision":"ALLOW"}'`), `other than "allow"`},
		"array":               {script(t, `echo '["allow"]'`), "it must write"},
		"endless output": {script(t, "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done"),
			"wrote more than 65536 bytes"},
		"does not exist": {[]string{"/there/is/no/such/hook"}, "could not be started"},
		"not executable": {script(t, "x")[1:], "could not be started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 30 * time.Second
			if name == "hangs" || name == "ignores signals" {
				timeout = 200 * time.Millisecond
			}
			got := judge(t, guardrail.HookConfig{On: guardrail.BeforeCall, Command: c.command, Timeout: timeout}, aCall)
			if got.Action != guardrail.Block || !strings.Contains(got.Reason, c.why) || got.Hook != "hook 1, "+filepath.Base(c.command[0]) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAskRequiresBeforeCall(t *testing.T) {
	e := aCall
	e.Type = guardrail.AfterCall
	got := judge(t, guardrail.HookConfig{On: guardrail.AfterCall, Command: script(t, `echo '{"decision":"ask"}'`)}, e)
	if got.Action != guardrail.Block || !strings.Contains(got.Reason, "only valid before") {
		t.Errorf("%+v", got)
	}
}

func TestCommandHookMayIgnoreStdin(t *testing.T) {
	e := aCall
	e.Arguments, _ = json.Marshal(map[string]string{"a": strings.Repeat("x", 4<<20)})
	got := judge(t, guardrail.HookConfig{On: guardrail.BeforeCall, Command: script(t, `echo '{"decision":"allow"}'`)}, e)
	if got.Action != guardrail.Allow {
		t.Errorf("%+v", got)
	}
}

func TestCommandHookLeavesNoProcess(t *testing.T) {
	longtest.SkipSlow(t)
	for name, text := range map[string]string{
		"that answered": "sleep 600 & echo $! > %s; echo '{\"decision\":\"allow\"}'",
		"that hangs":    "sleep 600 & echo $! > %s; wait",
		"that holds its output open, and answered": "(trap '' HUP; sleep 600; echo) & echo $! > %s; echo '{\"decision\":\"allow\"}'",
	} {
		at := filepath.Join(t.TempDir(), "pid")
		judge(t, guardrail.HookConfig{On: guardrail.BeforeCall, Timeout: 10 * time.Second, Command: script(t, fmt.Sprintf(text, at))},
			aCall)
		b, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("a process started by command %s still runs", name)
			}
		}
	}
}

// alive reports whether a process runs; zombies do not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestCommandHooksAreLimited(t *testing.T) {
	dir := t.TempDir()
	g := newGuard(t, guardrail.Config{Hooks: []guardrail.HookConfig{{On: guardrail.BeforeCall, Timeout: 60 * time.Second,
		Command: script(t, "echo > "+dir+"/$$; ls "+dir+" | wc -l > "+dir+".$$; sleep 0.05; rm "+dir+
			"/$$; echo '{\"decision\":\"allow\"}'")}}})
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if j := g.RunHooks(t.Context(), aCall); j.Action != guardrail.Allow {
				t.Errorf("%+v", j)
			}
		})
	}
	all.Wait()
	counts, _ := filepath.Glob(dir + ".*")
	if len(counts) != 30 {
		t.Errorf("%d ran", len(counts))
	}
	for _, path := range counts {
		b, _ := os.ReadFile(path)
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n > 8 {
			t.Errorf("%d concurrent, %v", n, err)
		}
	}
}

// goHook is a hook implemented in Go.
type goHook struct {
	guardrail.Decision
	err   error
	asked *[]string
	name  string
}

func (s goHook) Decide(context.Context, guardrail.Event) (guardrail.Decision, error) {
	*s.asked = append(*s.asked, s.name)
	return s.Decision, s.err
}

func TestHooksRunInOrderAndStrictestDecides(t *testing.T) {
	var asked []string
	hook := func(name string, on guardrail.EventType, tool string, d guardrail.Decision, err error) guardrail.HookConfig {
		return guardrail.HookConfig{On: on, Tool: tool, Hook: goHook{d, err, &asked, name}}
	}
	g := newGuard(t, guardrail.Config{Hooks: []guardrail.HookConfig{
		hook("1", guardrail.BeforeCall, "", guardrail.Decision{Action: guardrail.Allow}, nil),
		hook("2", guardrail.BeforeCall, "crm.*", guardrail.Decision{Action: guardrail.Ask, Reason: "sure?"}, nil),
		hook("other tool", guardrail.BeforeCall, "files.*", guardrail.Decision{Action: guardrail.Block}, nil),
		hook("other moment", guardrail.AfterCall, "", guardrail.Decision{Action: guardrail.Block}, nil),
		hook("3", guardrail.BeforeCall, "*.create/*", guardrail.Decision{}, errors.New("broken")),
		hook("4", guardrail.BeforeCall, "", guardrail.Decision{Action: guardrail.Allow}, nil),
	}})
	if j := g.RunHooks(t.Context(), aCall); j.Decision != (guardrail.Decision{Action: guardrail.Ask, Reason: "sure?"}) {
		t.Errorf("%+v", j)
	}
	e := aCall
	e.Tool = "create/one"
	if j := g.RunHooks(t.Context(), e); j.Action != guardrail.Block || strings.Contains(j.Reason, "broken") {
		t.Errorf("%+v", j) // errors other than faults are not shown
	}
	if d := cmp.Diff([]string{"1", "2", "4", "1", "2", "3"}, asked); d != "" {
		t.Error(d)
	}
}
