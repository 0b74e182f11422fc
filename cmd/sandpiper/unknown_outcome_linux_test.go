package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model/modeltest"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// A call of an unknown outcome is not repeated by the retry of a step, whose own limit ended it, or whose
// code catches the error and fails later.
func TestStepsWithUnknownCallsAreNotRepeated(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	for n, tc := range []struct{ step, want string }{
		{"type: tool_call, timeout: 0.5, config: {tool: ledger.pay, arguments: {n: 0, how: hang}}",
			"it took longer than 0.5 s. It is unknown whether ledger.pay took effect"},
		{`type: code_execution, config: {code: "try:\n    call_tool('ledger', 'pay', n=1, how='internal')\nexcept ToolError:\n    ` +
			`pass\nraise ValueError('later')"}`, "later"},
	} {
		saveWorkflow(t, dir, fmt.Sprintf("name: w%d\nversion: 1\nsteps: [{name: one, retry: {attempts: 3, backoff: 10ms}, %s}]\n", n,
			tc.step))
		out, err := sandpiper(dir, "workflow", "run", fmt.Sprintf("w%d", n)).CombinedOutput()
		if made := entered(t, ledger)[n]; err == nil || made != 1 || !strings.Contains(string(out), tc.want) {
			t.Errorf("step %d: it happened %d times: %s", n, made, out)
		}
	}
}

// payAndRetry makes a call that never ends, and tries again to make it.
const payAndRetry = `
from servers import slow
result = []
for attempt in range(2):
    try:
        slow.pay(n=7, how="hang")
    except (ToolError, TimeoutError) as e:
        result.append([type(e).__name__, getattr(e, "outcome", None), str(e)])
        break
`

// An execution that ends during a call names the call. It is resumed without a second call.
func TestExecutionThatEndsDuringACall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for name, end := range map[string]func(t *testing.T, s *served, dir, ledger string){
		"time-out": func(t *testing.T, s *served, _, _ string) {
			said := s.tool("execute_code", fmt.Sprintf(`{"code":%q,"timeout_seconds":2}`, payAndRetry))
			if !strings.Contains(said, `"error":"Execution timed out after 2 seconds; it is unknown whether slow.pay took effect"`) {
				t.Error(said)
			}
			s.kill()
		},
		"cancelled by the client": func(t *testing.T, s *served, _, ledger string) {
			s.ask("", payAndRetry)
			awaitEffects(t, ledger, 7)
			s.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, s.id))
			s.ask("", "1")
			s.hear()
			s.kill()
		},
		"stopped": func(t *testing.T, s *served, _, ledger string) {
			s.ask("", payAndRetry)
			awaitEffects(t, ledger, 7)
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = s.cmd.Wait()
		},
		"killed": func(t *testing.T, s *served, _, ledger string) {
			s.ask("", payAndRetry)
			awaitEffects(t, ledger, 7)
			s.kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ledger := filepath.Join(dir, "effects.txt")
			config := fmt.Sprintf("servers:\n  slow: {command: ledger, args: [%q], trusted: true}\n", ledger)
			if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			end(t, serve(t, dir), dir, ledger)
			id := interrupted(t, dir)
			var list struct {
				Executions []struct{ Answered, Unknown int }
			}
			if err := json.Unmarshal([]byte(command(t, dir, "executions", "list", "--json")), &list); err != nil ||
				len(list.Executions) != 1 || list.Executions[0].Unknown != 1 {
				t.Errorf("listed: %+v, %v", list, err)
			}
			s := serve(t, dir)
			s.resume(id)
			r, _ := s.hear()
			if len(r.Questions) != 1 || r.Questions[0].Call == 0 || !strings.Contains(r.Questions[0].Question, "slow.pay") {
				t.Errorf("%+v", r)
			}
			if made := entered(t, ledger)[7]; made != 1 {
				t.Errorf("it happened %d times", made)
			}
		})
	}
}

// A task whose program made a call of an unknown outcome is not repaired: another program would make
// the call again.
func TestTaskIsNotRepairedAfterAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	const program = "```python\nfrom servers.slow import pay\ntry: pay(n=9, how='hang')\nexcept ToolError: raise RuntimeError('it was " +
		"not paid') from None\n```"
	model := modeltest.Serve(t, func(int, modeltest.Question) modeltest.Reply { return modeltest.Reply{Text: program} })
	dir := t.TempDir()
	ledger, key := filepath.Join(dir, "effects.txt"), filepath.Join(dir, "key")
	config := fmt.Sprintf("servers:\n  slow: {command: ledger, args: [%q], trusted: true, timeout: 1s}\ntasks: {model: openai, url: %q, "+
		"name: m, key: \"${file:%s}\"}\n",
		ledger, model.URL+"/v1", key)
	for file, text := range map[string]string{key: modeltest.Key, filepath.Join(dir, "sandpiper.yaml"): config} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := sandpiper(dir, "task", "run", "--json", "pay the bill").CombinedOutput()
	if made := entered(t, ledger)[9]; err == nil || made != 1 || !strings.Contains(string(out),
		"it is unknown whether slow.pay took effect") {
		t.Errorf("it happened %d times: %s", made, out)
	}
}

// The errors of fetch, of raise_for_status and of HTTP libraries have the outcome of the first request.
func TestOutcomesOfHTTPRequests(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	var caught atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); {
		case r.URL.Path == "/caught":
			caught.Add(1)
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/cut":
			panic(http.ErrAbortHandler)
		case status == http.StatusSeeOther:
			http.Redirect(w, r, "/404", status)
		default:
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(site.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(site.URL, "http://"), ":")
	dir := t.TempDir()
	config := fmt.Sprintf("network:\n  allow:\n    - {host: localhost, scheme: http, port: %s, addresses: [127.0.0.0/8, '::1'], methods: "+
		"[GET, POST, PUT, DELETE], paths: ['/*']}\npolicy: {rules: [{tool: 'network.*', decision: allow}]}\n", port)
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// A library does not raise an error for the status, and the code fails later.
	saveWorkflow(t, dir, fmt.Sprintf(`
name: later
version: 1
steps:
  - name: one
    type: code_execution
    retry: {attempts: 3, backoff: 10ms}
    config:
      code: |
        import http.client
        c = http.client.HTTPConnection("localhost", %s)
        c.request("POST", "/caught", "x")
        raise ValueError(c.getresponse().status)
`, port))
	if out, err := sandpiper(dir, "workflow", "run", "later").CombinedOutput(); err == nil || caught.Load() != 1 {
		t.Errorf("a request whose outcome is unknown was made %d times: %s", caught.Load(), out)
	}
	code := fmt.Sprintf(`
import urllib.request
result = []
for method, path in [("POST", "500"), ("DELETE", "500"), ("GET", "503"), ("POST", "409"), ("POST", "429"), ("POST", "303"), ("POST", "cut"), ("PUT", "cut")]:
    try:
        fetch("http://localhost:%[1]s/" + path, method=method).raise_for_status()
    except ToolError as e:
        result.append([method, path, e.outcome, e.retryable, e.status, e.retry_after])
try:
    urllib.request.urlopen("http://localhost:%[1]s/cut", data=b"x")
except OSError as e:
    result.append(ToolError.may_have_effect(e))
`, port)
	d := serve(t, dir)
	r := d.call("", code)
	const want = `[["POST","500","unknown",false,500,3.0],["DELETE","500","failed",true,500,3.0],["GET","503","failed",true,503,3.0],["POST","409","failed",false,409,3.0],` +
		`["POST","429","failed",true,429,3.0],["POST","303","unknown",false,404,3.0],["POST","cut","unknown",false,null,null],["PUT","cut","failed",true,null,null],true]`
	if string(r.Result) != want {
		t.Errorf("got  %s %s\nwant %s", r.Result, r.Error, want)
	}
	// A redirect is the answer of its call: the request that follows is another one.
	audit, record := outcomes(t, d, dir, r.ID)
	audited, recorded := strings.Join(audit, ", "), strings.Join(record, ", ")
	wantAudited := "post unknown, delete failed, get failed, post failed, post failed, post answered, get failed, post unknown, put " +
		"failed, post unknown"
	if audited != wantAudited || recorded != strings.ReplaceAll(wantAudited, ", get failed", "") {
		t.Errorf("the audit log has %s\nthe journal  has %s\nwant          %s", audited, recorded, wantAudited)
	}
}

// journalOf returns the calls in the journal of a directory whose daemon has ended, the newest first.
func journalOf(t *testing.T, dir string) []journal.Entry {
	t.Helper()
	root := filepath.Join(dir, "data", "sandpiper")
	homes, err := home.Open(t.Context(), home.Config{Root: root, Process: journal.NewProcess(filepath.Join(root, "processes"), nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer homes.Close()
	h, err := homes.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release(t.Context())
	entries, err := h.Journal.List(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
