package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func loadNetwork(t *testing.T, name, text string) *config.Config {
	t.Helper()
	src, _ := sources(t, map[string]string{"work/" + name: text})
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tenantID(t *testing.T, name string) tenant.ID {
	t.Helper()
	id, err := tenant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func hasNetwork(c *config.Config) bool {
	return slices.ContainsFunc(c.Servers, func(s config.Server) bool { return s.Name == "network" })
}

// A tenant has the rules of the daemon, its tier or its own; one without rules does not see the server.
func TestNetworkOfTenants(t *testing.T) {
	c := loadNetwork(t, "sandpiper.yaml", `
network: {allow: [{host: a.example, methods: [GET, post], paths: /v1/*, secret: {header: Authorization, value: "Bearer ${TOKEN}"}}]}
tiers:
  closed: {network: {allow: []}}
  other: {network: {allow: [{host: "*.b.example"}, {host: 10.0.0.1, scheme: http, port: 8080}]}}
tenants: {closed_one: {tier: closed}, other_one: {tier: other}, plain: {profile: lean}}
`)
	if !hasNetwork(c) || len(c.Warnings) > 0 {
		t.Errorf("%v %v", c.Servers, c.Warnings)
	}
	for name, want := range map[string][]string{"plain": {"a.example"}, "unknown": {"a.example"}, "closed_one": nil, "other_one": {"*.b.example", "10.0.0.1"}} {
		own := c.For(tenantID(t, name), "")
		if d := cmp.Diff(want, own.Network.Hosts()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if sees := own.Allow.Server("network"); sees != (want != nil) {
			t.Errorf("%s sees the server: %v", name, sees)
		}
		if own.Allow.Server("crm") != true {
			t.Errorf("%s does not see other servers", name)
		}
	}
}

func TestNetworkOfATierOnly(t *testing.T) {
	c := loadNetwork(t, "sandpiper.yaml", "tiers: {paid: {network: {allow: [{host: a.example}]}}}\ntenants: {one: {tier: paid}}\n")
	if !hasNetwork(c) || c.Allow.Server("network") || c.Network != nil || !c.For(tenantID(t, "one"), "").Allow.Server("network") {
		t.Errorf("%+v", c.Allow)
	}
	if c := loadNetwork(t, "sandpiper.yaml", "profile: lean\n"); hasNetwork(c) || c.Allow != nil {
		t.Errorf("without rules there is a server: %+v", c.Servers)
	}
}

// The key of the seed systems allows every public host, or its hosts, and network.allow replaces it.
func TestSeedNetwork(t *testing.T) {
	for text, want := range map[string][]string{
		"execution: {allow_network_access: true}":                                                         {"*"},
		"execution: {allow_network_access: [a.example, b.example]}":                                       {"a.example", "b.example"},
		"execution: {allow_network_access: true}\nnetwork: {allow: [{host: c.example}]}":                  {"c.example"},
		"network: {allow: [{host: c.example}]}\nexecution: {allow_network_access: true, servers_dir: ''}": {"c.example"},
		"execution: {allow_network_access: false}":                                                        nil,
	} {
		c := loadNetwork(t, "config.yaml", text)
		warned := strings.Contains(strings.Join(c.Warnings, "\n"), "sandbox.allow_network_access lets code send requests to")
		if d := cmp.Diff(want, c.Network.Hosts()); d != "" || warned != (want != nil && !strings.Contains(text, "c.example")) {
			t.Errorf("%s: %s, warnings %q", text, d, c.Warnings)
		}
	}
}

func TestProjectCannotAllowRequests(t *testing.T) {
	c := trusted(t, map[string]string{"work/sandpiper.yaml": "network: {allow: [{host: a.example}]}\n", "work/config.yaml": "execution: {allow_network_access: true}\n"})
	if c.Network != nil || hasNetwork(c) || !strings.Contains(strings.Join(c.Warnings, "\n"), "network.allow has no effect in a project") {
		t.Errorf("%+v %q", c.Network, c.Warnings)
	}
}

func TestSecretsOfRequestsAreReferences(t *testing.T) {
	for text, want := range map[string]string{
		"{header: X-Key, value: abc}": "line 1: entry 1 of network.allow secret value must be a reference, ${NAME} or ${file:PATH}",
		"{value: '${A}'}":             "line 1: entry 1 of network.allow secret has no header",
		"{header: X-Key}":             "line 1: entry 1 of network.allow secret has no value",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "network: {allow: [{host: a.example, secret: " + text + "}]}"})
		if _, err := config.Load(src); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
