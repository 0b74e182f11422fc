package daemon_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// settings loads a configuration file.
func settings(t *testing.T, dir, text string, features ...config.Section) *config.Config {
	t.Helper()
	file := filepath.Join(dir, "sandpiper.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{Dir: dir, File: file, Features: features,
		Environ: []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}})
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
			"the other server": call("reveal", `{}`),
			"the hidden tool":  call("purge", `{}`),
			"the other's address": strings.Replace(call("x", `{}`), `"tools/call","params":{"name":"x","arguments":{}}`,
				`"resources/read","params":{"uri":"upstream://secret/x"}`, 1),
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
				if got := ask(t, url, ownerToken, call("reveal", `{}`)); profile == "passthrough" && !strings.Contains(got,
					"reveal answers") {
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
					for _, hidden := range []string{"reveal answers", "purge answers", "secret.reveal\\\"", `servers.secret`,
						"good.purge\\\"", `mcp_server\":\"secret`, `name\":\"secret`, `name\":\"purge`} {
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
		for !strings.Contains(transports["2026-07-28"](t, url, ownerToken, call("get_server_tools", `{"server_name":"`+server+`"}`)),
			`\"count\":`+map[string]string{"secret": "1", "good": "2"}[server]) {
			select {
			case <-t.Context().Done():
				t.Fatal("the servers are not listed")
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

func TestClientsChooseProfileAndSubset(t *testing.T) {
	dir := t.TempDir()
	cfg := passingOn(t, dir, map[string]upstreamtest.Script{"secret": scripted("reveal"), "good": scripted("echo", "purge")})
	loaded := settings(t, dir, "tiers: {free: {tenants: [alice], profile: standard, servers: [good]}}\nsubsets: {some: [good], few: "+
		"{tools: ['good.echo', 'secret.*']}}\n")
	cfg.Tenants, cfg.Subsets, cfg.Limits, cfg.Workspace, cfg.PII = loaded.Tenants, loaded.Subsets, loaded.Limits, loaded.Workspace,
		loaded.PII
	cfg.Profile, cfg.DataDir, cfg.Backend = "full", filepath.Join(dir, "data"), fakes
	url := serveTokens(t, cfg)
	awaitListing(t, url, "full")
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`
	for _, c := range []struct {
		path, token, message string
		want, not            []string
	}{
		{"", ownerToken, list, []string{`"get_server_tools"`, "servers.good", "secret"}, nil},
		{"?profile=lean", ownerToken, list, []string{`"execute_code"`, `"search_tools"`},
			[]string{`"list_servers"`, `"write_workspace_file"`}},
		{"?profile=lean", ownerToken, call("list_servers", `{}`), []string{"there is no tool"}, nil},
		{"?profile=huge", ownerToken, list, []string{`the profile \"huge\" cannot be chosen: use lean or standard or full`}, nil},
		{"?profile=passthrough", ownerToken, list, []string{"cannot be chosen"}, nil},
		{"", aliceToken, list, []string{`"write_workspace_file"`, "Servers: good."}, []string{`"list_servers"`}},
		{"", aliceToken, call("list_servers", `{}`), []string{"there is no tool"}, nil},
		{"?profile=full", aliceToken, list, []string{"the profile full is not available to this caller: use lean or standard"}, nil},
		{"/p/some", ownerToken, list, []string{"Servers: good."}, nil},
		{"/p/some?profile=lean", ownerToken, list, []string{"Servers: good."}, []string{`"write_workspace_file"`}},
		{"/p/some", ownerToken, call("search_tools", `{"query":"reveal echo","detail_level":"name"}`), []string{"echo"},
			[]string{`name\":\"reveal`}},
		{"/p/few", ownerToken, call("search_tools", `{"query":"reveal echo purge","detail_level":"name"}`), []string{"echo", "reveal"},
			[]string{`name\":\"purge`}},
		{"/p/few", aliceToken, call("search_tools", `{"query":"reveal echo purge","detail_level":"name"}`), []string{"echo"},
			[]string{`name\":\"purge`, `name\":\"reveal`}},
		{"/p/some", ownerToken, call("get_tool_definition", `{"tool_name":"secret.reveal"}`), []string{"there is no tool"}, nil},
		{"/p/none", ownerToken, list, []string{`there is no subset \"none\" of the servers`}, nil},
		{"/p/..%2fsome", ownerToken, list, []string{"there is no subset"}, nil},
	} {
		for _, era := range []string{"2026-07-28", "2025-11-25"} {
			got := choose(t, url+"/mcp"+c.path, c.token, c.message, era)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s %s: no %s in %s", era, c.path, want, got)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("%s %s: %s in %s", era, c.path, not, got)
				}
			}
		}
	}
	// A header of the client selects nothing.
	res := sendHTTP(t, "POST", url+"/mcp", hello, aliceToken, "Sandpiper-Choice", "full/none")
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "serverInfo") {
		t.Errorf("%s %v", body, err)
	}
}

// choose sends a message to a URL in one era; an error of initialize is the answer.
func choose(t *testing.T, url, token, message, era string) string {
	t.Helper()
	read := func(res *http.Response) string {
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if era == "2026-07-28" {
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
		_, rest, _ := strings.Cut(message, `"name":"`)
		name, _, _ := strings.Cut(rest, `"`)
		method := "tools/call"
		if strings.Contains(message, "tools/list") {
			message, method, name = strings.Replace(message, `"params":{`, `"params":{`+meta, 1), "tools/list", ""
		} else {
			message = strings.Replace(message, `"params":{`, `"params":{`+meta+",", 1)
		}
		headers := []string{"Mcp-Protocol-Version", era, "Mcp-Method", method}
		if name != "" {
			headers = append(headers, "Mcp-Name", name)
		}
		return read(sendHTTP(t, "POST", url, message, token, headers...))
	}
	res := sendHTTP(t, "POST", url, hello, token)
	id := res.Header.Get("Mcp-Session-Id")
	if body := read(res); !strings.Contains(body, "serverInfo") {
		return body
	}
	connection := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", era}
	sendHTTP(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, token, connection...)
	return read(sendHTTP(t, "POST", url, message, token, connection...))
}
