package config

import (
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// telemetryKeys are the keys of traces and metrics.
var telemetryKeys = map[string]key{
	"telemetry.traces.endpoint":    {read: func(d *draft, s setting) error { return collector(&d.Telemetry.Traces.Endpoint, s, true) }},
	"telemetry.metrics.endpoint":   {read: func(d *draft, s setting) error { return collector(&d.Telemetry.Metrics.Endpoint, s, false) }},
	"telemetry.metrics.prometheus": {read: func(d *draft, s setting) error { return scraped(d, s) }},
	"telemetry.metrics.token":      {read: func(d *draft, s setting) error { return scrapeToken(d, s) }},
}

// collector reads an endpoint of telemetry.
func collector(to *string, s setting, console bool) error {
	u, err := url.Parse(s.text)
	known := err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	switch {
	case s.text == "", known && u.User == nil:
	case console && s.text == telemetry.Console:
	case known: // a password would be in every error
		return fault.New(fault.Invalid, "%s: %s contains a user name or password", s.from, s.key).
			WithHint("put it into headers, such as headers: {Authorization: ${COLLECTOR_AUTH}}")
	case console:
		return wrong(s, "the URL of a collector such as http://127.0.0.1:4318, or console")
	default:
		return wrong(s, "the URL of a collector such as http://127.0.0.1:4318")
	}
	*to = s.text
	return nil
}

// prometheusAddr is the default address of OpenTelemetry's Prometheus exporter.
const prometheusAddr = "127.0.0.1:9464"

// scraped reads the address of the metrics listener; true means the default.
func scraped(d *draft, s setting) error {
	to := &d.Telemetry.Metrics.Prometheus
	switch s.text {
	case "true":
		*to = prometheusAddr
		return nil
	case "false", "":
		*to = ""
		return nil
	}
	if _, port, err := net.SplitHostPort(s.text); err != nil || port == "" {
		return wrong(s, "true, false, or an address such as %s", prometheusAddr)
	}
	*to = s.text
	return nil
}

// scrapeToken reads the token for scrapes. Its errors do not contain the token.
func scrapeToken(d *draft, s setting) error {
	secret, err := d.secret(s)
	if err != nil {
		return err
	}
	if len(secret) < minToken || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.New(fault.Invalid, "%s: %s has %d characters; a token has at least %d, printable and without spaces", s.from, s.key,
			len(secret), minToken).
			WithHint("openssl rand -hex 32 makes one")
	}
	d.Telemetry.Metrics.Token = secret
	return nil
}

// header reads a header for a collector.
func header(to *map[string]string, d *draft, s setting, name string) error {
	value, err := d.secret(s)
	if err != nil {
		return err
	}
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return fault.New(fault.Invalid, "%s: %s is not a valid header", s.from, s.key)
	}
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[name] = value
	return nil
}

// telemetryVariables applies the standard OpenTelemetry variables; keys of the configuration win.
// The SDK itself reads variables about exporting, such as OTEL_EXPORTER_OTLP_TIMEOUT
// and OTEL_TRACES_SAMPLER. The variables may be set for a parent process, so an
// unusable one is only a warning.
func telemetryVariables(to *telemetry.Config, given givenKeys, lookup func(string) (string, bool), warn func(string)) {
	of := func(name string) string { v, _ := lookup(name); return v }
	if strings.EqualFold(of("OTEL_SDK_DISABLED"), "true") {
		*to = telemetry.Config{}
		return
	}
	for _, signal := range []struct {
		name, path, key string
		to              *string
	}{
		{"TRACES", "v1/traces", "telemetry.traces.endpoint", &to.Traces.Endpoint},
		{"METRICS", "v1/metrics", "telemetry.metrics.endpoint", &to.Metrics.Endpoint},
	} {
		exporter := of("OTEL_" + signal.name + "_EXPORTER")
		if _, ours := given[signal.key]; ours || exporter == "none" {
			continue
		}
		if exporter == telemetry.Console && signal.name == "TRACES" {
			*signal.to = telemetry.Console
			continue
		}
		from := "OTEL_EXPORTER_OTLP_" + signal.name + "_ENDPOINT"
		text := of(from)
		if text == "" {
			from = "OTEL_EXPORTER_OTLP_ENDPOINT"
			if text = of(from); text != "" {
				text = strings.TrimSuffix(text, "/") + "/" + signal.path
			}
		}
		if err := collector(signal.to, setting{key: signal.key, text: text, from: from}, false); err != nil {
			warn(fault.Message(err) + "; it has no effect")
		} else if text != "" && of("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc" {
			warn("OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but http/protobuf is used for " + from)
		}
	}
}
