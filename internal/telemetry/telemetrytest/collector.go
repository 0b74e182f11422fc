// Package telemetrytest is a collector for tests: it receives the exports of a daemon,
// by the protocol of real collectors, and reads metrics as Prometheus does. Its
// methods are safe for concurrent use.
package telemetrytest

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that arrived.
type Span struct {
	Name              string
	Trace, ID, Parent string // in hexadecimal; Parent is "" for the first
	Facts             map[string]string
	Failed            bool
}

// Collector takes traces and metrics.
type Collector struct {
	URL string

	mu      sync.Mutex
	spans   []Span
	metrics map[string]bool
	raw     []byte
	headers []http.Header
}

// New starts a Collector, until the test ends.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{metrics: map[string]bool{}}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	c.URL = srv.URL
	return c
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	b, err := io.ReadAll(body)
	if err == nil {
		err = c.take(r, b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (c *Collector) take(r *http.Request, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.headers = append(c.raw, b...), append(c.headers, r.Header)
	switch r.URL.Path {
	case "/v1/traces":
		var req traces.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &req); err != nil {
			return err
		}
		for _, of := range req.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					c.spans = append(c.spans, Span{
						Name: s.Name, Trace: fmt.Sprintf("%x", s.TraceId), ID: fmt.Sprintf("%x", s.SpanId), Parent: fmt.Sprintf("%x",
							s.ParentSpanId),
						Facts: facts(s.Attributes), Failed: s.Status.GetCode() == 2,
					})
				}
			}
		}
	case "/v1/metrics":
		var req metrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(b, &req); err != nil {
			return err
		}
		for _, of := range req.ResourceMetrics {
			for _, scope := range of.ScopeMetrics {
				for _, m := range scope.Metrics {
					c.metrics[m.Name] = true
				}
			}
		}
	default:
		return fmt.Errorf("nothing is taken at %s", r.URL.Path)
	}
	return nil
}

func facts(all []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = fmt.Sprint(v.IntValue)
		default:
			m[a.Key] = fmt.Sprint(v)
		}
	}
	return m
}

// Spans are all that arrived so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span{}, c.spans...)
}

// Metric reports whether one of that name arrived.
func (c *Collector) Metric(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Raw is every byte that arrived, and the headers.
func (c *Collector) Raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.raw) + fmt.Sprint(c.headers)
}

// Scrape reads metrics from a URL as Prometheus does: the sum of all series of
// each name and, as name{label=value,…}, each series. Of a histogram it is how many
// were counted.
func Scrape(ctx context.Context, url, token string) (series map[string]float64, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, string(b), fmt.Errorf("%s: %w", res.Status, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(b)))
	series = map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			n := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			series[name] += n
			series[name+"{"+strings.Join(labels, ",")+"}"] = n
		}
	}
	return series, string(b), err
}
