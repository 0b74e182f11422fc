package network_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/network"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// sources returns those of files in a directory work, and of a user without other ones, with the feature.
func sources(t *testing.T, files map[string]string) config.Sources {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Sources{
		Dir:      filepath.Join(dir, "work"),
		Environ:  []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir},
		Features: []config.Section{network.Feature().Config},
	}
}

func load(t *testing.T, name, text string) (*config.Config, error) {
	t.Helper()
	src := sources(t, map[string]string{"work/" + name: text})
	src.File = name
	return config.Load(src)
}

func loadNetwork(t *testing.T, name, text string) *config.Config {
	t.Helper()
	c, err := load(t, name, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hosts returns the hosts to which code of a tenant with a configuration may send requests.
func hosts(c *config.Config) []string { return network.Feature().Network.Hosts(c) }

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
	for name, want := range map[string][]string{"plain": {"a.example"}, "unknown": {"a.example"}, "closed_one": nil,
		"other_one": {"*.b.example", "10.0.0.1"}} {
		own := c.For(tenantID(t, name), "")
		if d := cmp.Diff(want, hosts(own)); d != "" {
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
	if !hasNetwork(c) || c.Allow.Server("network") || len(hosts(c)) > 0 || !c.For(tenantID(t, "one"), "").Allow.Server("network") {
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
		if d := cmp.Diff(want, hosts(c)); d != "" || warned != (want != nil && !strings.Contains(text, "c.example")) {
			t.Errorf("%s: %s, warnings %q", text, d, c.Warnings)
		}
	}
}

func TestProjectCannotAllowRequests(t *testing.T) {
	src := sources(t, map[string]string{
		"work/sandpiper.yaml": "network: {allow: [{host: a.example}]}\n",
		"work/config.yaml":    "execution: {allow_network_access: true}\n",
	})
	project, err := config.Project(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.Trust(src.Environ, project); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if len(hosts(c)) > 0 || hasNetwork(c) || !strings.Contains(strings.Join(c.Warnings, "\n"), "network.allow has no effect in a project") {
		t.Errorf("%+v %q", hosts(c), c.Warnings)
	}
}

func TestSecretsOfRequestsAreReferences(t *testing.T) {
	for text, want := range map[string]string{
		"{header: X-Key, value: abc}": "line 1: entry 1 of network.allow secret value must be a reference, ${NAME} or ${file:PATH}",
		"{value: '${A}'}":             "line 1: entry 1 of network.allow secret has no header",
		"{header: X-Key}":             "line 1: entry 1 of network.allow secret has no value",
	} {
		text := "network: {allow: [{host: a.example, secret: " + text + "}]}"
		if _, err := load(t, "sandpiper.yaml", text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(),
			"abc") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestInvalidSettings(t *testing.T) {
	for text, want := range map[string]string{
		"network: {allow: [example.com]}": `network.allow contains "example.com"; write {host: ` +
			`example.com}`,
		"sandbox:\n  allow_network_access: [2130706433]": "line 2: sandbox.allow_network_access",
		"sandbox:\n  allow_network_access: {a: b}": "line 2: sandbox.allow_network_access must be false, " +
			"true or a list of hosts",
		"network:\n  allow:\n    - {hosts: a.example}": `line 3: entry 1 of network.allow has no key "hosts"; ` +
			`did you mean "host"?`,
		"network:\n  allow: [{host: a.example}, {host: 'a b'}]": `line 2: network.allow: entry 2 has host "a b", which ` +
			`is not a host name`,
		"network: {allow: [{host: a.example, port: 0}]}": `entry 1 of network.allow port is "0"; it must be a ` +
			`whole number from 1 to 65535`,
		"servers: {network: {command: x}}\nnetwork: {allow: [{host: a.example}]}": `server network has the name of the server that ` +
			`network.allow adds`,
	} {
		_, err := load(t, "sandpiper.yaml", text)
		if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The messages name the place and the key once.
func TestMessagesOfSettings(t *testing.T) {
	for text, want := range map[string]string{
		"network: {allow: [{host: a.example}, {host: 'a b'}]}": `sandpiper.yaml line 1: network.allow: entry 2 has host "a b", which is ` +
			`not a host name; write a name such as api.example.com, *.example.com for the names below it, or *`,
		"network: {allow: [example.com]}": `sandpiper.yaml line 1: network.allow contains "example.com"; write {host: ` +
			`example.com}`,
		"sandbox: {allow_network_access: ['a b']}": `sandpiper.yaml line 1: sandbox.allow_network_access: entry 1 has host "a b", ` +
			`which is not a host name; write a name such as api.example.com, *.example.com for the names below it, or *`,
		"sandbox: {allow_network_access: {a: b}}": `sandpiper.yaml line 1: sandbox.allow_network_access must be false, true or a ` +
			`list of hosts`,
		"network: {allow: a.example}": `sandpiper.yaml line 1: network.allow must be a list`,
		"tiers: {a: {network: {allow: [{host: 'a b'}]}}}": `sandpiper.yaml line 1: network.allow: entry 1 has host "a b", which is not a ` +
			`host name; write a name such as api.example.com, *.example.com for the names below it, or *`,
	} {
		if _, err := load(t, "sandpiper.yaml", text); err == nil || fault.Message(err) != want {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}
