package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry/telemetrytest"
)

const (
	toMCP      = "0123456789-of-a-tenant"
	toMetrics  = "0123456789-of-prometheus"
	canary     = "canary-7c1f" // in code, arguments, results and errors
	clientSays = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// watched starts a daemon over HTTP that exports to a collector and Prometheus.
func watched(t *testing.T) (*daemonProcess, *telemetrytest.Collector) {
	t.Helper()
	needSandbox(t)
	c := telemetrytest.New(t)
	servers := exampleServers(t)
	d := startServing(t, "", fmt.Sprintf(`
http: {tokens: {acme: %s}}
telemetry:
  traces: {endpoint: %q}
  metrics: {endpoint: %q, prometheus: "127.0.0.1:0", token: %s}
servers:
  calculator: {command: %q, trusted: true}
  files: {command: %q, args: [.], trusted: true}
policy: {rules: [{name: no-deleting, tool: files.write_file, decision: block}]}
`, toMCP, c.URL, c.URL, toMetrics, filepath.Join(servers, "calculator"), filepath.Join(servers, "filesystem")))
	return d, c
}

var scrapedAt = regexp.MustCompile(`metrics can be scraped" address=(\S+)`)

// metrics returns the URL of the metrics endpoint.
func (d *daemonProcess) metrics() string {
	d.t.Helper()
	for range 1000 {
		if at := scrapedAt.FindStringSubmatch(d.log.String()); at != nil {
			return "http://" + at[1] + "/metrics"
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.t.Fatalf("the log does not contain the address of the metrics:\n%s", d.log)
	return ""
}

// arrived waits for a span that satisfies a condition.
func arrived(t *testing.T, c *telemetrytest.Collector, want func(telemetrytest.Span) bool) {
	t.Helper()
	for range 3000 {
		for _, s := range c.Spans() {
			if want(s) {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it did not arrive among %+v", c.Spans())
}

func TestExecutionIsOneTraceWithoutContent(t *testing.T) {
	t.Parallel()
	d, c := watched(t)
	v := d.visit("Authorization", "Bearer "+toMCP, "Traceparent", clientSays)
	code := `from servers import calculator, files
x = calculator.add(a=1, b=2)
calculator.multiply(a=3, b=4)
try:
    files.write_file(path="canary-7c1f", content="canary-7c1f")
except Exception as e:
    print("canary-7c1f", e)
try:
    files.read_file(path="canary-7c1f")
except Exception as e:
    print(e)
result = "canary-7c1f"`
	if got := v.value(code); got != `"`+canary+`"` {
		t.Fatalf("the code gives %s", got)
	}
	arrived(t, c, func(s telemetrytest.Span) bool { return s.Name == "mcp.request" })

	byID, names := map[string]telemetrytest.Span{}, map[string]int{}
	for _, s := range c.Spans() {
		byID[s.ID] = s
		names[s.Name]++
		if s.Trace != strings.Split(clientSays, "-")[1] {
			t.Errorf("%s is not of the client's trace", s.Name)
		}
	}
	parents := map[string]string{
		"sandpiper.execute": "mcp.request", "sandpiper.queue": "sandpiper.execute", "sandpiper.call": "sandpiper.execute",
		"sandpiper.decide": "sandpiper.call", "sandpiper.send": "sandpiper.call",
	}
	calls := map[string]string{}
	for _, s := range c.Spans() {
		if want := parents[s.Name]; byID[s.Parent].Name != want {
			t.Errorf("%s is within %q", s.Name, byID[s.Parent].Name)
		}
		if s.Name == "mcp.request" && s.Parent != strings.Split(clientSays, "-")[2] {
			t.Errorf("the request is within %s", s.Parent)
		}
		if s.Name == "sandpiper.call" {
			calls[s.Facts["sandpiper.server"]+"."+s.Facts["sandpiper.tool"]] = s.Facts["sandpiper.outcome"]
			if s.Facts["sandpiper.tenant"] != "acme" || s.Facts["sandpiper.execution"] == "" {
				t.Errorf("a call of %+v", s.Facts)
			}
		}
	}
	if got := fmt.Sprint(calls); got != "map[calculator.add:answered calculator.multiply:answered files.read_file:failed "+
		"files.write_file:refused]" {
		t.Errorf("calls: %s", got)
	}
	if names["sandpiper.decide"] != 4 || names["sandpiper.send"] != 3 || names["sandpiper.execute"] != 1 {
		t.Errorf("spans: %v", names)
	}
	d.checkNoCanary(c)
}

// checkNoCanary checks that no exported byte, and no line of the audit log, contains the
// canary that was in all content.
func (d *daemonProcess) checkNoCanary(c *telemetrytest.Collector) {
	d.t.Helper()
	_, text, err := telemetrytest.Scrape(d.t.Context(), d.metrics(), toMetrics)
	if err != nil {
		d.t.Fatal(text, err)
	}
	logs, err := filepath.Glob(filepath.Join(d.home, "data/sandpiper/audit/*"))
	if err != nil || len(logs) == 0 {
		d.t.Fatal(logs, err)
	}
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			d.t.Fatal(err)
		}
		text += string(b)
	}
	if text += c.Raw(); strings.Contains(text, canary) || strings.Contains(text, toMCP) {
		d.t.Error("code, arguments, results or a token were exported")
	}
}

func TestMetricsEndpointIsSeparate(t *testing.T) {
	t.Parallel()
	d, _ := watched(t)
	v := d.visit("Authorization", "Bearer "+toMCP)
	v.value("1/0")
	v.value("from servers import calculator; calculator.add(a=1, b=2)")
	series := map[string]float64{}
	for range 1000 { // the slot is released slightly after the result
		var err error
		if series, _, err = telemetrytest.Scrape(t.Context(), d.metrics(), toMetrics); err != nil {
			t.Fatal(err)
		}
		if series["sandpiper_executions_running"] == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for name, want := range map[string]float64{
		"sandpiper_execution_duration_seconds{status=raised}":                     1,
		"sandpiper_execution_duration_seconds{status=completed}":                  1,
		"sandpiper_queue_duration_seconds":                                        2,
		"sandpiper_tool_calls_total{outcome=answered,server=calculator,tool=add}": 1,
		"sandpiper_upstream_duration_seconds{outcome=answered,server=calculator}": 1,
		"sandpiper_policy_decisions_total{verdict=allow}":                         1,
		"sandpiper_request_duration_seconds{outcome=failed,tool=execute_code}":    1,
		"sandpiper_request_duration_seconds{outcome=answered,tool=execute_code}":  1,
		"sandpiper_executions_running":                                            0,
		"sandpiper_executions_waiting":                                            0,
		"sandpiper_upstream_servers":                                              2,
		"sandpiper_audit_lost_total":                                              0,
	} {
		if got, there := series[name]; got != want || !there {
			t.Errorf("%s is %v, %t; want %v", name, got, there, want)
		}
	}
	for at, token := range map[string]string{
		d.metrics():                     toMCP, // the token of a tenant is not accepted here
		d.metrics() + "?rebound":        toMetrics,
		"http://" + d.addr + "/metrics": toMetrics,
		strings.TrimSuffix(d.metrics(), "/metrics") + "/mcp": toMCP,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		if r.URL.RawQuery == "rebound" { // by the DNS of a web page
			r.Host = "attacker.example"
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode/100 != 4 || strings.Contains(string(b), "go_goroutines") {
			t.Errorf("%s answers %s", at, res.Status)
		}
	}
}

// The metrics of tenants are told apart by tier, and no tenant is named.
func TestMetricsHaveTiers(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	calculator := filepath.Join(exampleServers(t), "calculator")
	d := startServing(t, "", fmt.Sprintf(`
http: {tokens: {free-1: 0123456789-of-free-1, free-2: 0123456789-of-free-2, gold: 0123456789-of-gold, untiered-1: 0123456789-of-untiered-1}}
tiers: {free: {tenants: ["free-*"]}, pro: {}, unused: {}}
tenants: {gold: {tier: pro}}
telemetry: {metrics: {prometheus: "127.0.0.1:0", token: %s}}
servers: {calculator: {command: %q, trusted: true}}
`, toMetrics, calculator))
	for tenant, code := range map[string]string{"free-1": "1", "free-2": "1/0",
		"gold": "from servers import calculator; calculator.add(a=1, b=2)", "untiered-1": "2"} {
		d.visit("Authorization", "Bearer 0123456789-of-"+tenant).value(code)
	}
	d.visit("Authorization", "Bearer 0123456789-of-free-1").value("3")
	running := d.visit("Authorization", "Bearer 0123456789-of-gold")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.answer(`{"code":"import os, time\nwhile not os.path.exists('go'): time.sleep(.02)","timeout_seconds":60}`)
	}()
	var series map[string]float64
	for range 3000 {
		var err error
		if series, _, err = telemetrytest.Scrape(t.Context(), d.metrics(), toMetrics); err != nil {
			t.Fatal(err)
		}
		if series["sandpiper_executions_running{tier=pro}"] == 1 && series["sandpiper_executions_running{tier=free}"] == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.WriteFile(filepath.Join(d.workspace("gold"), "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	<-ended
	for name, want := range map[string]float64{
		"sandpiper_execution_duration_seconds{status=completed,tier=free}":                 2,
		"sandpiper_execution_duration_seconds{status=raised,tier=free}":                    1,
		"sandpiper_execution_duration_seconds{status=completed,tier=pro}":                  1,
		"sandpiper_execution_duration_seconds{status=completed}":                           1,
		"sandpiper_queue_duration_seconds{tier=free}":                                      3,
		"sandpiper_upstream_duration_seconds{outcome=answered,server=calculator,tier=pro}": 1,
		"sandpiper_tool_calls_total{outcome=answered,server=calculator,tool=add}":          1,
		"sandpiper_request_duration_seconds{outcome=failed,tier=free,tool=execute_code}":   1,
		"sandpiper_request_duration_seconds{outcome=answered,tier=free,tool=execute_code}": 2,
		"sandpiper_executions_running{tier=pro}":                                           1,
		"sandpiper_executions_running{tier=unused}":                                        0,
		"sandpiper_executions_waiting{tier=free}":                                          0,
	} {
		if got, there := series[name]; got != want || !there {
			t.Errorf("%s is %v, %t; want %v", name, got, there, want)
		}
	}
	for name := range series {
		if strings.Contains(name, "free-") || strings.Contains(name, "gold") || strings.Contains(name, "untiered") {
			t.Errorf("%s names a tenant", name)
		}
	}
}

// Each refusal by a quota is counted by quota and tier, and no tenant is named.
func TestMetricsCountRefusalsByQuota(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", fmt.Sprintf(`
http: {tokens: {ada: 0123456789-of-ada, bob: 0123456789-of-bob, eve: 0123456789-of-eve}}
tiers: {free: {tenants: [ada], quotas: {executions_per_minute: 2}}, small: {tenants: [bob], quotas: {calls_per_day: 1}, workspace: {max_mb: 1}}}
tenants: {eve: {pii: {queries_per_hour: 1}, workspace: {max_files: 100}}}
profile: standard
telemetry: {metrics: {prometheus: "127.0.0.1:0", token: %s}}
servers: {calculator: {command: %q, trusted: true}}
`, toMetrics, filepath.Join(exampleServers(t), "calculator")))
	ada := d.visit("Authorization", "Bearer 0123456789-of-ada")
	for range 5 {
		ada.answer(`{"code":"1"}`)
	}
	bob := d.visit("Authorization", "Bearer 0123456789-of-bob")
	bob.answer(`{"code":"from servers import calculator\nfor i in range(3):\n    try: calculator.add(a=1, b=2)\n    except ` +
		`ToolError: pass"}`)
	// A write of a few milliseconds is not noticed if another process frees as much space in that time.
	bob.answer(`{"code":"import time\nwith open('big', 'ab', 0) as f:\n    while True: f.write(bytes(1_000_000)); time.sleep(0.05)"}`)
	bob.answer(`{"code":"write_file('f', 'x' * 2_000_000)"}`)
	eve := d.visit("Authorization", "Bearer 0123456789-of-eve")
	eve.answer(`{"code":"for i in range(200): write_file(f'f{i}', '1')"}`)
	eve.toolText("sanitize_pii", `{"text":"ada@example.com and bob@example.com"}`)
	series, text, err := telemetrytest.Scrape(t.Context(), d.metrics(), toMetrics)
	if err != nil {
		t.Fatal(text, err)
	}
	got := map[string]float64{}
	for name, n := range series {
		if strings.HasPrefix(name, "sandpiper_quota_refusals_total{") {
			got[name] = n
		}
	}
	want := map[string]float64{
		"sandpiper_quota_refusals_total{quota=executions_per_minute,tier=free}": 3,
		"sandpiper_quota_refusals_total{quota=calls_per_day,tier=small}":        2,
		"sandpiper_quota_refusals_total{quota=workspace.max_mb,tier=small}":     2,
		"sandpiper_quota_refusals_total{quota=workspace.max_files}":             1,
		"sandpiper_quota_refusals_total{quota=pii.queries_per_hour}":            1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTraceIncludesWaitForApproval(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	c := telemetrytest.New(t)
	home, servers := t.TempDir(), exampleServers(t)
	p := connect(t, home, fmt.Sprintf(`
telemetry: {traces: {endpoint: %[1]q}}
servers:
  calculator: {command: %[2]q, trusted: true}
  files: {command: %[3]q, args: [%[4]q]}
`, c.URL, filepath.Join(servers, "calculator"), filepath.Join(servers, "filesystem"), home), "2025-11-25", `{"elicitation":{}}`)
	p.sendCall("execute_code", `{"code":"from servers import calculator, files\ncalculator.add(a=1, `+
		`b=2)\nfiles.write_file(path='canary-7c1f', content='canary-7c1f')"}`, "")
	q := p.nextMessage()
	if q.Method != "elicitation/create" {
		t.Fatalf("no question: %+v", q)
	}
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, approves))
	if m := p.nextMessage(); !strings.Contains(m.Result.Content[0].Text, `"success":true`) {
		t.Fatalf("it was not approved: %+v", m)
	}
	arrived(t, c, func(s telemetrytest.Span) bool { return s.Name == "mcp.request" })
	var approval, call telemetrytest.Span
	for _, s := range c.Spans() {
		switch {
		case s.Name == "sandpiper.approval":
			approval = s
		case s.Facts["sandpiper.tool"] == "write_file" && s.Name == "sandpiper.call":
			call = s
		}
	}
	if approval.Parent != call.ID || approval.Facts["sandpiper.outcome"] != "approved" || call.Facts["sandpiper.outcome"] != "answered" {
		t.Errorf("the wait %+v in the call %+v", approval, call)
	}
	if strings.Contains(c.Raw(), canary) {
		t.Error("content of the call was exported")
	}
}
