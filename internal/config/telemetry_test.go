package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

func TestTelemetryIsParsed(t *testing.T) {
	text := `telemetry:
  traces: {endpoint: "http://127.0.0.1:4318", propagate: true, headers: {Authorization: "${AUTH}"}}
  metrics: {endpoint: "https://collector/x", prometheus: true, token: "${SCRAPE}", headers: {X-Key: k}}
`
	collector := "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/"
	traces := func(at string) telemetry.Config { return telemetry.Config{Traces: telemetry.Traces{Endpoint: at}} }
	both := traces("http://c:4318/v1/traces")
	both.Metrics.Endpoint = "http://c:4318/v1/metrics"
	for _, c := range []struct {
		name, yaml string
		env        []string
		want       telemetry.Config
	}{
		{name: "nothing"},
		{name: "all keys", yaml: text, env: []string{"AUTH=Bearer x", "SCRAPE=0123456789abcdef", collector}, want: telemetry.Config{
			Traces: telemetry.Traces{Endpoint: "http://127.0.0.1:4318", Headers: map[string]string{"Authorization": "Bearer x"},
				Propagate: true},
			Metrics: telemetry.Metrics{Endpoint: "https://collector/x", Headers: map[string]string{"X-Key": "k"},
				Prometheus: "127.0.0.1:9464", Token: "0123456789abcdef"},
		}},
		{name: "an address", yaml: "telemetry: {metrics: {prometheus: '127.0.0.1:0'}}",
			want: telemetry.Config{Metrics: telemetry.Metrics{Prometheus: "127.0.0.1:0"}}},
		{name: "variables", env: []string{collector}, want: both},
		{name: "one signal", env: []string{collector, "OTEL_METRICS_EXPORTER=none"}, want: traces("http://c:4318/v1/traces")},
		{name: "its own variable", env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t:1/here"}, want: traces("http://t:1/here")},
		{name: "console", env: []string{"OTEL_TRACES_EXPORTER=console"}, want: traces("console")},
		{name: "off", yaml: "telemetry: {traces: {endpoint: console}}", env: []string{"OTEL_SDK_DISABLED=true", collector}},
		{name: "a key says nothing", yaml: "telemetry: {traces: {endpoint: ''}, metrics: {endpoint: ''}}", env: []string{collector}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, _ := sources(t, map[string]string{"work/sandpiper.yaml": c.yaml})
			src.Environ = append(src.Environ, c.env...)
			got, err := config.Load(src)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Telemetry); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInvalidTelemetryIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		`{traces: {endpoint: "collector:4318"}}`:             "must be the URL of a collector such as",
		`{traces: {endpoint: "http://"}}`:                    "must be the URL of a collector such as",
		`{metrics: {endpoint: console}}`:                     "must be the URL of a collector such as",
		`{traces: {endpoint: "http://user:hush@c:4318"}}`:    "contains a user name or password",
		`{metrics: {prometheus: 9464}}`:                      "must be true, false, or an address",
		`{metrics: {prometheus: "127.0.0.1:"}}`:              "must be true, false, or an address",
		`{metrics: {token: hush}}`:                           "has 4 characters; a token has at least 16",
		`{traces: {headers: {"a b": x}}}`:                    "is not a valid header",
		`{traces: {headers: {Authorization: "${MISSING}"}}}`: "taken from the variable MISSING, which is not set",
		`{traces: {url: "http://c"}}`:                        "there is no key",
		`{trace: {}}`:                                        "there is no key",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "telemetry: " + text})
		_, err := config.Load(src)
		if err == nil || !strings.Contains(fault.Message(err), want) || strings.Contains(fault.Message(err), "hush") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestUnusableOTELVariableWarns(t *testing.T) {
	for env, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317":                                 "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://user:hush@c":                      "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc": "http/protobuf is used",
	} {
		src, _ := sources(t, nil)
		src.Environ = append(src.Environ, strings.Fields(env)...)
		c, err := config.Load(src)
		if err != nil || len(c.Warnings) == 0 || !strings.Contains(c.Warnings[0], want) || strings.Contains(c.Warnings[0], "hush") {
			t.Errorf("%s: %v, %v", env, err, c)
		}
	}
}
