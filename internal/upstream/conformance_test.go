package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// runs are the client scenarios of the suites: all of 0.1, and of 0.2 those that each protocol
// revision requires, as frozen at its release, or reports. Extensions other than OAuth are omitted.
// The number of OAuth checks depends on the number of requests, and each scenario fails if a required
// check is missing, so 1 means at least one.
var runs = map[string]struct {
	pkg, revision string
	scenarios     map[string]int // passed checks
}{
	"0.1": {"@modelcontextprotocol/conformance", "", map[string]int{
		"auth/2025-03-26-oauth-endpoint-fallback": 1, "auth/2025-03-26-oauth-metadata-backcompat": 1, "auth/basic-cimd": 1,
		"auth/client-credentials-basic": 1, "auth/client-credentials-jwt": 1, "auth/cross-app-access-complete-flow": 1,
		"auth/metadata-default": 1, "auth/metadata-var1": 1, "auth/metadata-var2": 1, "auth/metadata-var3": 1,
		"auth/offline-access-not-supported": 1, "auth/offline-access-scope": 1, "auth/pre-registration": 1, "auth/resource-mismatch": 1,
		"auth/scope-from-scopes-supported": 1, "auth/scope-from-www-authenticate": 1, "auth/scope-omitted-when-undefined": 1,
		"auth/scope-retry-limit": 1, "auth/scope-step-up": 1, "auth/token-endpoint-auth-basic": 1, "auth/token-endpoint-auth-none": 1,
		"auth/token-endpoint-auth-post": 1, "elicitation-sep1034-client-defaults": 5, "initialize": 1, "sse-retry": 3, "tools_call": 1,
	}},
	"0.2-2025-03-26": {"conformance-0.2", "2025-03-26", map[string]int{
		"auth/2025-03-26-oauth-endpoint-fallback": 1, "auth/2025-03-26-oauth-metadata-backcompat": 1,
	}},
	"0.2-2025-11-25": {"conformance-0.2", "2025-11-25", map[string]int{
		"auth/basic-cimd": 1, "auth/client-credentials-basic": 1, "auth/client-credentials-jwt": 1, "auth/dpop": 1,
		"auth/dpop-nonce": 1, "auth/enterprise-managed-authorization": 1, "auth/metadata-default": 1, "auth/metadata-var1": 1,
		"auth/metadata-var2": 1, "auth/metadata-var3": 1, "auth/pre-registration": 1, "auth/scope-from-scopes-supported": 1,
		"auth/scope-from-www-authenticate": 1, "auth/scope-omitted-when-undefined": 1, "auth/scope-retry-limit": 1,
		"auth/scope-step-up": 1, "auth/token-endpoint-auth-basic": 1, "auth/token-endpoint-auth-none": 1,
		"auth/token-endpoint-auth-post": 1, "auth/wif-jwt-bearer": 1, "elicitation-sep1034-client-defaults": 5, "initialize": 1,
		"json-schema-2020-12-preservation": 9, "sse-retry": 3, "tools_call": 2,
	}},
	"0.2-2026-07-28": {"conformance-0.2", "2026-07-28", map[string]int{
		"auth/authorization-server-migration": 1, "auth/basic-cimd": 1, "auth/client-credentials-basic": 1,
		"auth/client-credentials-jwt": 1, "auth/dpop": 1, "auth/dpop-nonce": 1, "auth/enterprise-managed-authorization": 1,
		"auth/iss-normalized": 1, "auth/iss-not-advertised": 1, "auth/iss-supported": 1, "auth/iss-supported-missing": 1,
		"auth/iss-unexpected": 1, "auth/iss-wrong-issuer": 1, "auth/metadata-default": 1, "auth/metadata-issuer-mismatch": 1,
		"auth/metadata-var1": 1, "auth/metadata-var2": 1, "auth/metadata-var3": 1, "auth/offline-access-not-supported": 1,
		"auth/offline-access-scope": 1, "auth/pre-registration": 1, "auth/resource-mismatch": 1, "auth/scope-from-scopes-supported": 1,
		"auth/scope-from-www-authenticate": 1, "auth/scope-omitted-when-undefined": 1, "auth/scope-retry-limit": 1,
		"auth/scope-step-up": 1, "auth/token-endpoint-auth-basic": 1, "auth/token-endpoint-auth-none": 1,
		"auth/token-endpoint-auth-post": 1, "auth/wif-jwt-bearer": 1, "http-custom-headers": 18, "http-invalid-tool-headers": 12,
		"http-standard-headers": 10, "json-schema-2020-12-preservation": 9, "json-schema-ref-no-deref": 1, "request-metadata": 6,
		"sep-2322-client-request-state": 5, "tools_call": 2,
	}},
}

// lacking are scenarios of OAuth extensions that we do not implement and that the suites do not
// score.
var lacking = []string{
	// The metadata of its authorization server has another issuer; fixed in 0.2.
	"0.1/auth/2025-03-26-oauth-metadata-backcompat",
	"auth/enterprise-managed-authorization", "auth/cross-app-access-complete-flow", "auth/dpop", "auth/dpop-nonce", "auth/wif-jwt-bearer",
}

// short are the scenarios that are not only for long tests: each starts Node.js.
var short = []string{"auth/2025-03-26-oauth-endpoint-fallback", "auth/metadata-default", "http-standard-headers",
	"sep-2322-client-request-state", "tools_call"}

// TestConformance runs the conformance suites against a client that uses a Set.
func TestConformance(t *testing.T) {
	m := wiretest.Installed(t, "@modelcontextprotocol/conformance", "conformance-0.2")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, got := maps.Clone(run.scenarios), map[string]int{}
			omit := func(scenario string) bool { return !longtest.Enabled() && !slices.Contains(short, scenario) }
			maps.DeleteFunc(want, func(scenario string, _ int) bool { return omit(scenario) })
			for _, scenario := range slices.DeleteFunc(required(t, m, run.pkg, run.revision), omit) {
				passed, failed := try(t, m, run.pkg, run.revision, scenario, exe)
				got[scenario] = passed
				if strings.HasPrefix(scenario, "auth/") {
					got[scenario] = min(passed, 1)
				}
				if len(failed) > 0 && !slices.Contains(lacking, scenario) && !slices.Contains(lacking, name+"/"+scenario) {
					t.Errorf("%s: %s", scenario, strings.Join(failed, "\n"))
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("checks passed (-want +got):\n%s", d)
			}
		})
	}
}

// required returns the client scenarios that a suite lists.
func required(t *testing.T, m wiretest.Modules, pkg, revision string) (names []string) {
	args := []string{"list", "--client"}
	switch revision {
	case "":
	case "2025-03-26": // has no requirements of its own
		args = append(args, "--spec-version", revision)
	default:
		args = []string{"list", "--requirements", revision}
	}
	out, _ := m.Run(t, t.TempDir(), m.Path(pkg+"/dist/index.js"), args...)
	_, list, found := strings.Cut(string(out), "Client scenarios")
	if !found {
		t.Fatalf("%s lists no client scenarios:\n%s", pkg, out)
	}
	for line := range strings.Lines(list) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if ok && !strings.HasSuffix(name, "[server]") && !strings.HasPrefix(name, "sep-2640-") {
			names = append(names, strings.TrimSuffix(strings.Fields(name)[0], ":"))
		}
	}
	return names
}

// try runs one scenario and returns its passed and failed checks.
func try(t *testing.T, m wiretest.Modules, pkg, revision, scenario, exe string) (passed int, failed []string) {
	home := t.TempDir()
	args := []string{m.Path(pkg + "/dist/index.js"), "client", "--command", exe + " conformance-client", "--scenario", scenario, "-o",
		"results", "--verbose"}
	if revision != "" {
		args = append(args, "--spec-version", revision, "--force") // extensions belong to no revision
	}
	out, _ := m.Run(t, home, args[0], args[1:]...)
	files, _ := filepath.Glob(filepath.Join(home, "results", "*", "checks.json"))
	deeper, _ := filepath.Glob(filepath.Join(home, "results", "*", "*", "checks.json"))
	if files = append(files, deeper...); len(files) != 1 {
		t.Fatalf("%s left %d results:\n%s", scenario, len(files), out)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Status, ErrorMessage, Description string }
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			passed++
		case "FAILURE", "WARNING":
			failed = append(failed, c.ID+": "+c.ErrorMessage+" "+c.Description)
		}
	}
	return passed, failed
}

// conform is the client. It makes all requests that a server supports, and logs in if an error
// requires it.
func conform(url string) int {
	home, err := os.MkdirTemp("", "conform-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(home)
	client := &oauth.Client{MetadataURL: "https://conformance-test.local/client-metadata.json"}
	server := upstream.Remote{URL: url, Authorization: client}
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
		Issuer string `json:"issuer"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given)
	client.ID, client.Secret, client.Key, client.Issuer = given.ID, given.Secret, given.Key, given.Issuer
	client.Machine = strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/client-credentials")
	s, err := upstream.New(upstream.Config{Servers: []upstream.Server{{Name: "s", Kind: server}}, Client: "test-client", Version: "1",
		RetryDelay: time.Millisecond,
		Logins:     secret.NewStore(filepath.Join(home, "logins"), filepath.Join(home, "key"))})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close()
	ctx := context.Background()
	if err := exercise(ctx, s); err != nil {
		fmt.Println(fault.Message(err), "/", fault.Hint(err))
		return 1
	}
	return 0
}

func exercise(ctx context.Context, s *upstream.Set) error {
	wishes := wished()
	for _, c := range wishes { // before any list, which would report the tools that need headers
		_, _ = s.Call(ctx, c)
	}
	var l upstream.Listing
	err := loggedIn(ctx, s, func() (err error) {
		l, err = s.List(ctx, "s")
		return err
	})
	if err != nil {
		return err
	}
	if wishes == nil {
		for _, c := range calls(l.Tools) {
			_ = loggedIn(ctx, s, func() error {
				c.Ask = agree
				_, err := s.Call(ctx, c)
				return err
			})
		}
	}
	if all, err := s.ListResources(ctx, "s"); err == nil && len(all) > 0 {
		_, _ = s.ReadResource(ctx, "s", all[0].URI)
	}
	if all, err := s.ListPrompts(ctx, "s"); err == nil && len(all) > 0 {
		_, _ = s.GetPrompt(ctx, "s", all[0].Name, map[string]string{})
	}
	return nil
}

// loggedIn calls do, and repeats it after a login if the error asks for one.
func loggedIn(ctx context.Context, s *upstream.Set, do func() error) error {
	for range 2 {
		err := do()
		if !strings.Contains(fault.Hint(err), "tools login") {
			return err
		}
		fmt.Println(fault.Message(err))
		if err := s.Login(ctx, "s", upstream.Interaction{OpenURL: browse}); err != nil {
			return err
		}
	}
	return do()
}

// browse is a browser whose user grants every request. It follows the redirects to the callback.
func browse(address string) {
	go func() {
		res, err := http.Get(address)
		if err == nil {
			res.Body.Close()
		}
	}()
}

// agree accepts every question with empty content.
func agree(context.Context, tool.Question) (tool.Reply, error) {
	return tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{}`)}, nil
}

// wished returns the calls that a suite requests.
func wished() (calls []tool.Call) {
	var wish struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &wish)
	for _, w := range wish.ToolCalls {
		calls = append(calls, tool.Call{Ref: tool.Ref{Server: "s", Tool: w.Name}, Args: w.Arguments})
	}
	return calls
}

// calls returns one call of each tool.
func calls(tools []tool.Definition) (calls []tool.Call) {
	schemas := map[string]json.RawMessage{}
	for _, d := range tools {
		schemas[d.Tool] = d.Input
		args := json.RawMessage(`{"region":"us-west1"}`)
		switch d.Tool {
		case "add_numbers":
			args = json.RawMessage(`{"a":5,"b":3}`)
		case "json_schema_2020_12_tool":
			continue
		case "json_schema_echo":
			args, _ = json.Marshal(map[string]any{"schema": schemas["json_schema_2020_12_tool"]})
		}
		calls = append(calls, tool.Call{Ref: d.Ref, Args: args})
	}
	return calls
}
