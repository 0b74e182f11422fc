package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry/telemetrytest"
)

func open(t testing.TB, cfg telemetry.Config) *telemetry.Recorder {
	t.Helper()
	r, err := telemetry.Open(t.Context(), cfg)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	t.Cleanup(r.Close)
	return r
}

// work is an execution with two calls, of which one fails.
func work(ctx context.Context, r *telemetry.Recorder) {
	ctx, request := r.Start(ctx, telemetry.Request, telemetry.Facts{Tool: "execute_code"})
	ctx, execution := r.Start(ctx, telemetry.Execution, telemetry.Facts{Tenant: "local", Execution: "exec_1", Session: "s"})
	for i, outcome := range []string{"answered", "failed"} {
		ctx, call := r.Start(ctx, telemetry.Call, telemetry.Facts{Server: "crm", BytesIn: 7})
		_, decision := r.Start(ctx, telemetry.Decision, telemetry.Facts{})
		decision.Update(func(f *telemetry.Facts) { f.Rule = "default" })
		decision.End("allow")
		_, send := r.Start(ctx, telemetry.Send, telemetry.Facts{Server: "crm"})
		send.End(outcome)
		call.Update(func(f *telemetry.Facts) { f.Tool = fmt.Sprint("tool", i) })
		call.End(outcome)
	}
	execution.End("completed")
	request.End("answered")
}

func TestAnExecutionIsOneTrace(t *testing.T) {
	c := telemetrytest.New(t)
	r := open(t, telemetry.Config{Version: "1", Traces: telemetry.Traces{Endpoint: c.URL, Headers: map[string]string{"X-Key": "k"}},
		Metrics: telemetry.Metrics{Endpoint: c.URL}})
	parent := map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	work(r.Continue(t.Context(), func(name string) string { return parent[name] }), r)
	r.Close()
	r.Close()

	spans := c.Spans()
	id, at := map[string]string{"b7ad6b7169203331": "the client"}, map[string]telemetrytest.Span{}
	for _, s := range spans {
		name := s.Name
		if s.Facts["sandpiper.tool"] != "" && s.Name == "sandpiper.call" {
			name += " " + s.Facts["sandpiper.tool"]
		}
		id[s.ID], at[name] = name, s
		if s.Trace != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is of trace %s", name, s.Trace)
		}
	}
	for child, parent := range map[string]string{
		"mcp.request": "the client", "sandpiper.execute": "mcp.request", "sandpiper.call tool0": "sandpiper.execute",
		"sandpiper.call tool1": "sandpiper.execute",
	} {
		if got := id[at[child].Parent]; got != parent {
			t.Errorf("%s is within %q, not %s", child, got, parent)
		}
	}
	want := map[string]string{"sandpiper.server": "crm", "sandpiper.tool": "tool1", "sandpiper.bytes_in": "7",
		"sandpiper.outcome": "failed"}
	if got := at["sandpiper.call tool1"]; !cmp.Equal(want, got.Facts) || !got.Failed || at["sandpiper.call tool0"].Failed {
		t.Errorf("got %+v", got)
	}
	if len(spans) != 8 || !c.Metric("sandpiper.tool.calls") || !c.Metric("sandpiper.execution.duration") {
		t.Errorf("%d spans, or a metric is not there", len(spans))
	}
	if raw := c.Raw(); !strings.Contains(raw, "X-Key:[k]") {
		t.Error("the collector did not see the header")
	}
}

func TestMalformedTraceContextIsIgnored(t *testing.T) {
	c := telemetrytest.New(t)
	r := open(t, telemetry.Config{Traces: telemetry.Traces{Endpoint: c.URL}})
	for _, parent := range []string{"", "x", "00-00000000000000000000000000000000-0000000000000000-01", strings.Repeat("0", 1<<20),
		"00-\x00"} {
		_, s := r.Start(r.Continue(t.Context(), func(string) string { return parent }), telemetry.Request, telemetry.Facts{})
		s.End("answered")
	}
	r.Close()
	for _, s := range c.Spans() {
		if s.Parent != "" {
			t.Errorf("%+v has a parent", s)
		}
	}
	if n := len(c.Spans()); n != 5 {
		t.Errorf("%d spans", n)
	}
}

func TestOutgoingNeedsPropagate(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		r := open(t, telemetry.Config{Traces: telemetry.Traces{Endpoint: telemetry.Console, Propagate: wanted}})
		ctx, s := r.Start(t.Context(), telemetry.Send, telemetry.Facts{})
		if got := r.Outgoing(ctx)["traceparent"] != ""; got != wanted {
			t.Errorf("wanted %t, got %t", wanted, got)
		}
		s.End("answered")
	}
}

func TestZeroConfigExportsNothing(t *testing.T) {
	r, err := telemetry.Open(t.Context(), telemetry.Config{})
	if r != nil || err != nil {
		t.Fatal(r, err)
	}
	ctx := t.Context()
	work(r.Continue(ctx, nil), r)
	r.Tokens(true, 1)
	r.Minted(1)
	if r.Outgoing(ctx) != nil || r.AddGauge(telemetry.Gauge{}) != nil {
		t.Error("something is told")
	}
	r.Close()
	if n := testing.AllocsPerRun(100, func() {
		_, s := r.Start(ctx, telemetry.Call, telemetry.Facts{Tenant: "local"})
		s.End("answered")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFailingCollectorDelaysNoCall(t *testing.T) {
	hang := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(func() { close(hang); hanging.CloseClientConnections(); hanging.Close() })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := "http://" + ln.Addr().String()
	ln.Close()
	for name, url := range map[string]string{"down": down, "hangs": hanging.URL} {
		t.Run(name, func(t *testing.T) {
			var l logtest.Log
			r := open(t, telemetry.Config{Traces: telemetry.Traces{Endpoint: url}, Metrics: telemetry.Metrics{Endpoint: url},
				Log: slog.New(slog.NewTextHandler(&l, nil))})
			began := time.Now()
			for range 5000 { // more than are kept
				_, s := r.Start(t.Context(), telemetry.Call, telemetry.Facts{Server: "crm"})
				s.End("answered")
			}
			r.Close()
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			if n := strings.Count(l.String(), "the collector does not accept traces"); n > 1 {
				t.Errorf("that is said %d times", n)
			}
		})
	}
}

func scraped(t *testing.T, r *telemetry.Recorder) map[string]float64 {
	t.Helper()
	srv := httptest.NewServer(r.Handler(""))
	defer srv.Close()
	series, text, err := telemetrytest.Scrape(t.Context(), srv.URL+"/metrics", "")
	if err != nil {
		t.Fatal(text, err)
	}
	return series
}

func TestMetricsCanBeScraped(t *testing.T) {
	r := open(t, telemetry.Config{Metrics: telemetry.Metrics{Prometheus: "x"}})
	work(t.Context(), r)
	r.Tokens(true, 100)
	r.Tokens(false, 7)
	r.Minted(3)
	for _, l := range []telemetry.Gauge{
		{Name: "sandpiper.executions.running", Unit: "{execution}", Read: func(part func(string, int64)) { part("", 4) }},
		{Name: "sandpiper.upstream.servers", Unit: "{server}", Label: "state",
			Read: func(part func(string, int64)) { part("ready", 2); part("failed", 1) }},
		{Name: "sandpiper.audit.lost", Unit: "{line}", Total: true, Read: func(part func(string, int64)) { part("", 9) }},
	} {
		if err := r.AddGauge(l); err != nil {
			t.Fatal(err)
		}
	}
	got := scraped(t, r)
	for name, want := range map[string]float64{
		"sandpiper_request_duration_seconds{outcome=answered,tool=execute_code}": 1,
		"sandpiper_execution_duration_seconds{status=completed}":                 1,
		"sandpiper_tool_calls_total":                                             2,
		"sandpiper_tool_calls_total{outcome=failed,server=crm,tool=tool1}":       1,
		"sandpiper_upstream_duration_seconds{outcome=answered,server=crm}":       1,
		"sandpiper_policy_decisions_total{verdict=allow}":                        2,
		"sandpiper_tokens_total{side=inside}":                                    100,
		"sandpiper_tokens_total{side=spent}":                                     7,
		"sandpiper_pii_tokens_total":                                             3,
		"sandpiper_executions_running":                                           4,
		"sandpiper_upstream_servers{state=ready}":                                2,
		"sandpiper_audit_lost_total":                                             9,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
	if got["go_goroutines"] < 1 {
		t.Error("nothing is said of the process")
	}
	for name := range got {
		if strings.Contains(name, "tenant") || strings.Contains(name, "exec_1") {
			t.Errorf("%s tells tenants apart", name)
		}
	}
}

func TestSeriesAreLimited(t *testing.T) {
	r := open(t, telemetry.Config{Metrics: telemetry.Metrics{Prometheus: "x"}})
	for i := range 10_000 {
		_, s := r.Start(t.Context(), telemetry.Call, telemetry.Facts{Server: "crm", Tool: fmt.Sprint("tool", i)})
		s.End("answered")
	}
	got, series := scraped(t, r), 0
	for name := range got {
		if strings.HasPrefix(name, "sandpiper_tool_calls_total{") {
			series++
		}
	}
	if series > 2001 || got["sandpiper_tool_calls_total"] != 10_000 {
		t.Errorf("%d series with %v calls", series, got["sandpiper_tool_calls_total"])
	}
}

func TestMetricsRequireToken(t *testing.T) {
	r := open(t, telemetry.Config{Metrics: telemetry.Metrics{Prometheus: "x"}})
	srv := httptest.NewServer(r.Handler("0123456789abcdef"))
	defer srv.Close()
	for token, ok := range map[string]bool{"": false, "0123456789abcdeF": false, "0123456789abcdef": true} {
		_, text, err := telemetrytest.Scrape(t.Context(), srv.URL+"/metrics", token)
		if (err == nil) != ok || !ok && strings.Contains(text, "go_") {
			t.Errorf("%q: %v, %s", token, err, text)
		}
	}
}

func TestOpenRejectsBadEndpoint(t *testing.T) {
	for _, at := range []string{"x", "http://", "ftp://x", ":"} {
		if _, err := telemetry.Open(t.Context(), telemetry.Config{Traces: telemetry.Traces{Endpoint: at}}); err == nil {
			t.Errorf("%q is taken", at)
		}
	}
}

func TestConfigurationDoesNotPrintSecrets(t *testing.T) {
	cfg := telemetry.Config{Traces: telemetry.Traces{Headers: map[string]string{"A": "hush"}},
		Metrics: telemetry.Metrics{Token: "hush", Headers: map[string]string{"A": "hush"}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, cfg); strings.Contains(text, "hush") {
			t.Errorf("%s: %s", format, text)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	for name, cfg := range map[string]telemetry.Config{
		"off": {}, "metrics": {Metrics: telemetry.Metrics{Prometheus: "x"}},
		"traces": {Traces: telemetry.Traces{Endpoint: telemetry.Console}, Metrics: telemetry.Metrics{Prometheus: "x"}},
	} {
		b.Run(name, func(b *testing.B) {
			r, err := telemetry.Open(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			ctx := b.Context()
			for b.Loop() { // the three spans of a call
				ctx, call := r.Start(ctx, telemetry.Call, telemetry.Facts{Tenant: "local", Execution: "exec_1", Server: "crm",
					Tool: "send"})
				_, decision := r.Start(ctx, telemetry.Decision, telemetry.Facts{Rule: "default"})
				decision.End("allow")
				_, send := r.Start(ctx, telemetry.Send, telemetry.Facts{Server: "crm"})
				send.End("answered")
				call.End("answered")
			}
		})
	}
}
