package daemon_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// The access log has a line for each request, and nothing that the client wrote.
func TestAccessLogHasNoContent(t *testing.T) {
	const canary = "canary5f2e9d"
	dir := t.TempDir()
	cfg := passingOn(t, dir, map[string]upstreamtest.Script{"good": scripted("echo")})
	loaded := settings(t, dir, "tiers: {free: {tenants: [alice]}}\nsubsets: {some: [good]}\nhttp: {access_log: logs/access.jsonl}\n")
	cfg.Tenants, cfg.Subsets, cfg.Limits, cfg.Workspace, cfg.PII = loaded.Tenants, loaded.Subsets, loaded.Limits, loaded.Workspace,
		loaded.PII
	cfg.Profile, cfg.DataDir, cfg.Backend = "standard", filepath.Join(dir, "data"), fakes
	cfg.HTTP.AccessLog = loaded.HTTP.AccessLog
	url := serveTokens(t, cfg)
	for _, ask := range transports {
		ask(t, url, aliceToken, call("write_workspace_file", `{"filename":"`+canary+`.txt","content":"`+canary+`"}`))
		ask(t, url, aliceToken, call("read_workspace_file", `{"filename":"../`+canary+`"}`))
		ask(t, url, aliceToken, call(canary, `{"`+canary+`":1}`))
	}
	choose(t, url+"/mcp/p/some?profile=lean", aliceToken, call("search_tools", `{"query":"`+canary+`"}`), "2026-07-28")
	choose(t, url+"/mcp/p/"+canary+"?profile="+canary, aliceToken, call("search_tools", `{"query":"x"}`), "2026-07-28")
	sendHTTP(t, "POST", url+"/mcp", strings.Replace(hello, "initialize", canary+"/x", 1), aliceToken, "Sandpiper-Remote", canary)
	sendHTTP(t, "POST", url+"/mcp", hello, canary+"-as-a-token")

	f, err := os.Open(loaded.HTTP.AccessLog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", fi.Mode(), err)
	}
	seen := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.Contains(lines.Text(), canary) {
			t.Errorf("content: %s", lines.Text())
		}
		var l struct{ Tenant, Tier, Remote, Method, Tool, Status, Subset string }
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Tenant != "alice" || l.Tier != "free" || l.Remote != "" && !strings.HasPrefix(l.Remote, "127.0.0.1:") { // none over /sse
			t.Errorf("%s", lines.Text())
		}
		seen[l.Method+" "+l.Tool+" "+l.Status+" "+l.Subset]++
	}
	for what, n := range map[string]int{
		"tools/call write_workspace_file ok ": 3, "tools/call read_workspace_file failed ": 3, "tools/call  refused ": 3,
		"initialize  ok ": 2, "tools/call search_tools ok some": 1, "tools/call search_tools refused ": 1,
	} {
		if seen[what] < n {
			t.Errorf("%q: %d times in %v", what, seen[what], seen)
		}
	}
}
