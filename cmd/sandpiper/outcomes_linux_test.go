package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// outcome is what code learns of a call that failed.
type outcome struct {
	Outcome       string
	Retryable     bool
	Status, After int
}

// An ending is a way in which a call ends without an answer that can be used.
type ending struct {
	how     string
	on      string  // the ways to the ledger, see outcomeRoutes
	write   outcome // of a tool that may change something
	repeat  outcome // of one that reads or is idempotent, and of resources and prompts
	effects int     // of one call
}

var (
	isUnknown   = outcome{Outcome: "unknown"}
	isRetryable = outcome{Outcome: "failed", Retryable: true}
	isFailed    = outcome{Outcome: "failed"}
	notMade     = outcome{Outcome: "not_made", Retryable: true}
)

// status is o with a status of HTTP.
func (o outcome) status(n int) outcome { o.Status = n; return o }

// endings are all ways in which a call ends without an answer. The arguments are refused and the tool
// fails for comparison: these are answers.
var endings = []ending{
	{"hang", "local http sse api", isUnknown, isRetryable, 1},
	{"die", "local http sse api", isUnknown, isRetryable, 1},
	{"internal", "local http sse", isUnknown, isRetryable, 1},
	{"internal", "api", isUnknown.status(500), isRetryable.status(500), 1},
	{"junk", "local http sse api", isUnknown, isRetryable, 1},
	{"id", "local http sse", isUnknown, isRetryable, 1},
	{"shape", "local http sse", isUnknown, isRetryable, 1},
	{"stream", "http sse", isUnknown, isRetryable, 1},
	{"cut", "http sse api", isUnknown, isRetryable, 1},
	{"502", "http sse api", isUnknown.status(502), isRetryable.status(502), 1},
	{"408", "http sse api", isUnknown.status(408), isRetryable.status(408), 1},
	{"redirect", "http sse", isUnknown, isRetryable, 1},
	{"page", "http", isUnknown.status(200), isRetryable.status(200), 1},
	{"busy", "http sse api", outcome{"failed", true, 429, 7}, outcome{"failed", true, 429, 7}, 0},
	{"params", "local http sse", isFailed, isFailed, 1},
	{"fail", "local http sse", isFailed, isFailed, 1},
	{"fail", "api", isFailed.status(409), isFailed.status(409), 1},
}

// An outcomeRoute is a way to call the ledger.
type outcomeRoute struct {
	name, server string
	kinds        string // of calls: tools, or resource and prompt
	python       string // defines end(kind, n, how)
}

const (
	throughTools  = "def end(kind, n, how): call_tool(SERVER, kind, n=n, how=how)\n"
	throughModule = "import importlib\nm = importlib.import_module('servers.' + SERVER)\n"
	throughSkill  = "from skills import charge\ndef end(kind, n, how): charge(kind, n, how)\n"
	throughURIs   = throughModule + "def end(kind, n, how):\n    uri = f'end://{how}/{n}'\n    m.resources.read(uri) if kind == " +
		"'resource' else m.prompts.get('end', uri=uri)\n"
)

var outcomeRoutes = []outcomeRoute{
	{"stdio", "local", "pay set look", throughTools},
	{"HTTP", "http", "pay set look", throughTools},
	{"SSE", "sse", "pay set look", throughTools},
	{"OpenAPI", "api", "pay set look", throughTools},
	{"skill", "local", "pay set look", throughSkill},
	{"module", "local", "pay set look", throughModule + "def end(kind, n, how): getattr(m, kind)(n=n, how=how)\n"},
	{"resources and prompts over stdio", "local", "resource prompt", throughURIs},
	{"resources and prompts over HTTP", "http", "resource prompt", throughURIs},
	{"resources and prompts over SSE", "sse", "resource prompt", throughURIs},
}

// An outcomeCase is a call that ends badly.
type outcomeCase struct {
	n    int // of its effect
	kind string
	how  string
	want outcome
	made int
}

func (c outcomeCase) String() string { return c.kind + " " + c.how }

// checkEffects checks how often a call happened. A client of HTTP may repeat one that is repeatable.
func (c outcomeCase) checkEffects(t *testing.T, made int) {
	t.Helper()
	if made != c.made && (made != 2 || c.kind == "pay") {
		t.Errorf("%s happened %d times, want %d", c, made, c.made)
	}
}

// cases returns the calls that end badly on a way, with numbers from first.
func (r outcomeRoute) cases(first int) (all []outcomeCase) {
	for _, e := range endings {
		if !slices.Contains(strings.Fields(e.on), r.server) {
			continue
		}
		for _, kind := range strings.Fields(r.kinds) {
			c := outcomeCase{first + len(all), kind, e.how, e.repeat, e.effects}
			switch {
			case kind == "pay":
				c.want = e.write
			case e.how == "fail" && (kind == "resource" || kind == "prompt"): // an error of the protocol, without a code
				c.want = isRetryable
			}
			all = append(all, c)
		}
	}
	return all
}

// A ledgerHome is a directory with the ledger on every way; gone ends all its servers for good.
type ledgerHome struct {
	dir, file string
	gone      func()
}

func newLedgerHome(t *testing.T, more string) ledgerHome {
	t.Helper()
	dir := t.TempDir()
	h := ledgerHome{dir: dir, file: filepath.Join(dir, "ledger.txt")}
	at, stop := startLedger(t, h.file)
	gone := filepath.Join(dir, "gone")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	h.gone = func() { stop(); write(gone, "yes") }
	start := fmt.Sprintf("test -e %s || exec ledger %s", gone, h.file)
	write(filepath.Join(dir, "sandpiper.yaml"), fmt.Sprintf(`%s
sandbox: {timeout: 300s}
servers:
  local: {command: sh, args: [-c, %q], trusted: true, timeout: 1s}
  http: {url: %q, trusted: true, timeout: 1s}
  sse: {url: %q, type: sse, trusted: true, timeout: 1s}
catalog: [{openapi: %q, name: api, timeout: 1s}]
`, more, start, at+"/mcp", at+"/sse", at+"/openapi.json"))
	return h
}

// tryEach returns code that makes calls and reports how they end. It waits for the server before each.
func (r outcomeRoute) tryEach(cases []outcomeCase, ready bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "import time\nSERVER = %q\n%s", r.server, r.python)
	b.WriteString(`
def await_server():
    for _ in range(100):
        try:
            return call_tool(SERVER, "ping")
        except ToolError:
            time.sleep(0.1)
result = []
def attempt(kind, n, how):
    try:
        end(kind, n, how)
        result.append({"Outcome": "answered"})
    except ToolError as e:
        result.append({"Outcome": e.outcome, "Retryable": e.retryable, "Status": e.status or 0, "After": e.retry_after or 0, "Text": str(e)})
`)
	for _, c := range cases {
		if ready {
			b.WriteString("await_server()\n")
		}
		fmt.Fprintf(&b, "attempt(%q, %d, %q)\n", c.kind, c.n, c.how)
	}
	return b.String()
}

// check compares how the calls of an execution ended in the code and in the file of the effects.
func (r outcomeRoute) check(t *testing.T, h ledgerHome, cases []outcomeCase, a execAnswer) {
	t.Helper()
	var got []struct {
		outcome
		Text string
	}
	if err := json.Unmarshal(a.Result, &got); err != nil || len(got) != len(cases) {
		t.Fatalf("%d of %d: %+v", len(got), len(cases), a)
	}
	effects := entered(t, h.file)
	for i, c := range cases {
		if d := cmp.Diff(c.want, got[i].outcome); d != "" {
			t.Errorf("%s: %s%s", c, got[i].Text, d)
		}
		if strings.Contains(got[i].Text, "t is unknown whether "+r.server) != (c.want.Outcome == "unknown") {
			t.Errorf("%s says %s", c, got[i].Text)
		}
		c.checkEffects(t, effects[c.n])
	}
}

// checkRecords compares the audit log and the journal, which lacks calls that read, with the cases.
func checkRecords(t *testing.T, s *served, h ledgerHome, execution string, cases []outcomeCase) {
	t.Helper()
	var wantAudit, wantJournal []string
	for _, c := range cases {
		name := c.kind
		switch c.kind {
		case "resource":
			name = "resources/read"
		case "prompt":
			name = "prompts/get"
		}
		wantAudit = append(wantAudit, name+" "+c.want.Outcome)
		if c.kind == "pay" || c.kind == "set" {
			wantJournal = append(wantJournal, c.kind+" "+c.want.Outcome)
		}
	}
	audited, recorded := outcomes(t, s, h.dir, execution)
	if d := cmp.Diff(wantAudit, audited) + cmp.Diff(wantJournal, recorded); d != "" {
		t.Errorf("the audit log or the journal: %s", d)
	}
}

// Every way in which a call can end without an answer has the same outcome for code, in the audit log and
// in the journal, on every way to a server: unknown for a tool that may change something, unless it was
// not made.
func TestOutcomesOfEveryEnding(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, r := range outcomeRoutes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			h := newLedgerHome(t, "")
			if r.python == throughSkill {
				saveSkill(t, h.dir, "def charge(kind, n, how):\n    return call_tool('local', kind, n=n, how=how)\n")
			}
			s := serve(t, h.dir)
			cases := r.cases(1)
			a := s.call("", r.tryEach(cases, true))
			r.check(t, h, cases, a)
			h.gone()
			// ends the process of stdio
			s.call("", r.tryEach([]outcomeCase{{n: 1000, kind: strings.Fields(r.kinds)[0], how: "die"}}, false))
			var gone []outcomeCase
			for i, kind := range strings.Fields(r.kinds) {
				gone = append(gone, outcomeCase{n: 1001 + i, kind: kind, how: "ok", want: notMade})
			}
			b := s.call("", r.tryEach(gone, false))
			r.check(t, h, gone, b)
			checkRecords(t, s, h, a.ID, cases)
			checkRecords(t, s, h, b.ID, gone)
		})
	}
}

// The retry of a step repeats a call unless its outcome is unknown.
func TestRetriesOfEveryEnding(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, r := range outcomeRoutes[:4] {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			h := newLedgerHome(t, "")
			text := "name: retry\nversion: 1\nsteps:\n"
			r.kinds = "pay set" // a tool that reads is retried as one that is idempotent
			cases := r.cases(1)
			for _, c := range cases {
				text += fmt.Sprintf("  - {name: ready%[1]d, type: tool_call, retry: {attempts: 8, backoff: 50ms}, config: {tool: "+
					"%[2]s.ping}}\n"+
					"  - {name: try%[1]d, type: tool_call, on_error: skip, retry: {attempts: 3, backoff: 10ms}, config: {tool: "+
					"%[2]s.%[3]s, arguments: {n: %[1]d, how: %[4]q}}}\n",
					c.n, r.server, c.kind, c.how)
			}
			saveWorkflow(t, h.dir, text)
			out, err := sandpiper(h.dir, "workflow", "run", "retry").CombinedOutput()
			if err != nil {
				t.Errorf("%v %s", err, out)
			}
			effects := entered(t, h.file)
			for _, c := range cases {
				least, most := c.made, 6*c.made // an attempt may find its server while it starts; a client of HTTP may repeat it
				if c.want.Outcome == "unknown" {
					most = 1
				} else if c.made > 0 {
					least = 2
				}
				if n := effects[c.n]; n < least || n > most {
					t.Errorf("%s happened %d times", c, n)
				}
			}
		})
	}
}

// In the profile passthrough the text of the answer says that the outcome is unknown.
func TestOutcomesThroughPassthrough(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, r := range outcomeRoutes[:4] {
		t.Run(r.name, func(t *testing.T) {
			if r.server == "http" || r.server == "sse" {
				longtest.Skip(t) // they repeat what code sees
			}
			t.Parallel()
			h := newLedgerHome(t, "profile: passthrough\npolicy: {rules: [{tool: '*', decision: allow}]}\n")
			s := serve(t, h.dir)
			cases := r.cases(1)
			call := func(tool, how string, n int) string {
				return s.request("tools/call", fmt.Sprintf(`{"name":"%s_%s","arguments":{"n":%d,"how":%q}}`, r.server, tool, n, how))
			}
			for _, c := range cases {
				for range 100 {
					if text := call("ping", "", 0); !strings.Contains(text, `"isError":true`) && !strings.Contains(text, `"error"`) {
						break
					}
				}
				text := call(c.kind, c.how, c.n)
				if strings.Contains(text, "t is unknown whether "+r.server+"."+c.kind+" took effect") != (c.want.Outcome == "unknown") ||
					!strings.Contains(text, "rror") {
					t.Errorf("%s: %s", c, text)
				}
				c.checkEffects(t, entered(t, h.file)[c.n])
			}
			checkRecords(t, s, h, "", cases)
		})
	}
}

// A plan makes each of its calls once, and says which may have been made.
func TestOutcomesOfPlans(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, r := range outcomeRoutes[:4] {
		t.Run(r.name, func(t *testing.T) {
			if r.server == "http" || r.server == "sse" {
				longtest.Skip(t) // they repeat what code sees
			}
			t.Parallel()
			h := newLedgerHome(t, "")
			p := &approvalClient{version: "2025-11-25", home: h.dir, formClient: connectTo(t, h.dir, "2025-11-25", `{"elicitation":{}}`)}
			plans := map[string]outcomeCase{}
			for _, c := range r.cases(1) {
				if c.kind == "look" { // a dry run makes calls that read
					continue
				}
				p.sendCode(r.tryEach(nil, false) + "await_server()")
				p.nextMessage()
				plan := p.dryRun(fmt.Sprintf("call_tool(%q, %q, n=%d, how=%q)", r.server, c.kind, c.n, c.how))
				for try := range 2 {
					_, done := p.applyPlan(plan.ID, approves)
					if done.Success || try == 0 && (len(done.Calls) != 1 || done.Calls[0].State != c.want.Outcome) {
						t.Errorf("%s: %+v", c, done)
					}
					c.checkEffects(t, entered(t, h.file)[c.n])
				}
				plans[plan.ID] = c
			}
			for id, c := range plans {
				checkRecords(t, p.served, h, id, []outcomeCase{c})
			}
		})
	}
}

// outcomes stops a daemon and returns the outcomes of the calls of an execution in the audit log and in
// the journal, which lacks those that read. Calls of ping are left out.
func outcomes(t *testing.T, d *served, dir, execution string) (audited, recorded []string) {
	t.Helper()
	if d.cmd.ProcessState == nil { // the log is complete when the daemon has ended
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = d.cmd.Wait()
	}
	for line := range strings.Lines(command(t, dir, "audit", "tail", "-n", "5000", "--json")) {
		var l struct{ Kind, Execution, Tool, Outcome string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Kind == "tool_call" && l.Execution == execution && l.Tool != "ping" {
			audited = append(audited, l.Tool+" "+l.Outcome)
		}
	}
	for _, e := range slices.Backward(journalOf(t, dir)) {
		if e.Execution == execution && e.Ref.Tool != "ping" {
			recorded = append(recorded, e.Ref.Tool+" "+string(e.Outcome))
		}
	}
	return audited, recorded
}
