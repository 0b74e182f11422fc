package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// settings loads a configuration file.
func settings(t *testing.T, dir, text string) *config.Config {
	t.Helper()
	file := filepath.Join(dir, "sandpiper.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{Dir: dir, File: file, Environ: []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Alice, whose tier hides a server, gets the answers of a daemon without it.
func TestTiersHideServersOnEveryTransport(t *testing.T) {
	for _, profile := range []string{"full", "passthrough"} {
		dir := t.TempDir()
		cfg := passingOn(t, dir, map[string]upstreamtest.Script{"secret": scripted("reveal"), "good": scripted("echo", "purge")})
		loaded := settings(t, dir, "tiers: {free: {tenants: [alice], servers: [good], tools: ['*.echo']}}\n")
		cfg.Tenants, cfg.Limits, cfg.Workspace, cfg.Profile, cfg.PII = loaded.Tenants, loaded.Limits, loaded.Workspace, profile, loaded.PII
		cfg.DataDir = filepath.Join(dir, "data")
		if profile == "full" {
			cfg.Backend = fakes
		}
		url := serveTokens(t, cfg)
		asks := map[string]string{
			"the other server":     call("reveal", `{}`),
			"the hidden tool":      call("purge", `{}`),
			"the other's address":  strings.Replace(call("x", `{}`), `"tools/call","params":{"name":"x","arguments":{}}`, `"resources/read","params":{"uri":"upstream://secret/x"}`, 1),
			"search":               call("search_tools", `{"query":"reveal purge secret","detail_level":"full"}`),
			"a definition":         call("get_tool_definition", `{"tool_name":"secret.reveal"}`),
			"a hidden definition":  call("get_tool_definition", `{"tool_name":"good.purge"}`),
			"servers":              call("list_servers", `{}`),
			"the tools of another": call("get_server_tools", `{"server_name":"secret"}`),
			"own tools":            call("get_server_tools", `{"server_name":"good"}`),
			"categories":           call("list_tool_categories", `{}`),
			"statistics":           call("get_execution_stats", `{}`),
			"generated modules":    call("list_workspace_files", `{"subpath":"servers"}`),
			"a generated module":   call("read_workspace_file", `{"filename":"servers/secret/reveal.py"}`),
		}
		awaitListing(t, url, profile)
		for transport, ask := range transports {
			t.Run(profile+" over "+transport, func(t *testing.T) {
				if got := ask(t, url, ownerToken, call("reveal", `{}`)); profile == "passthrough" && !strings.Contains(got, "reveal answers") {
					t.Errorf("the owner: %s", got)
				}
				if got := ask(t, url, aliceToken, call("echo", `{}`)); profile == "passthrough" && !strings.Contains(got, "echo answers") {
					t.Errorf("alice's own tool: %s", got)
				}
				for _, what := range []string{"search", "a definition", "servers", "the tools of another", "a generated module"} {
					if got := ask(t, url, ownerToken, asks[what]); profile == "full" && !strings.Contains(got, "secret") {
						t.Errorf("the owner's %s: %s", what, got)
					}
				}
				for what, message := range asks {
					got := ask(t, url, aliceToken, message)
					for _, hidden := range []string{"reveal answers", "purge answers", "secret.reveal\\\"", `servers.secret`, "good.purge\\\"", `mcp_server\":\"secret`, `name\":\"secret`, `name\":\"purge`} {
						if strings.Contains(got, hidden) {
							t.Errorf("%s shows %s: %s", what, hidden, got)
						}
					}
				}
			})
		}
	}
}

// awaitListing waits until the servers have listed their tools.
func awaitListing(t *testing.T, url, profile string) {
	t.Helper()
	if profile == "passthrough" {
		return
	}
	for _, server := range []string{"secret", "good"} {
		for !strings.Contains(transports["2026-07-28"](t, url, ownerToken, call("get_server_tools", `{"server_name":"`+server+`"}`)), `\"count\":`+map[string]string{"secret": "1", "good": "2"}[server]) {
			select {
			case <-t.Context().Done():
				t.Fatal("the servers are not listed")
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}
