package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	toolpkg "github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Every client pays these tokens for the list of tools on every turn.
func TestToolListTokenBudget(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for profile, budget := range map[builtin.Profile]int{
		builtin.Lean: 380, builtin.Standard: 900, builtin.Full: 2500,
	} {
		total := 0
		privacy, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner,
			Record: func(context.Context, redact.Transfer) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		cfg := execution.Config{Backend: fake.New(fake.Config{}), Restriction: limited} // needs the longer description
		server := mcpserver.Config{Profile: profile, Privacy: privacy, Find: servers(t, nineteen)}
		for _, tool := range listTools(t, newServerOf(t, t.TempDir(), server, cfg)) {
			n := tokens.Count(tool.Name + "\n" + tool.Description + "\n" + string(tool.InputSchema))
			t.Logf("%s: %4d %s", profile, n, tool.Name)
			total += n
		}
		if t.Logf("%s: %4d in all", profile, total); total > budget || total == 0 {
			t.Errorf("the tools of %s cost %d tokens, more than %d", profile, total, budget)
		}
	}
}

// servers returns a Finder of configured servers, by the names of their tools.
func servers(t testing.TB, tools map[string]string) *lookup.Finder {
	t.Helper()
	var all []catalog.Configured
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		all = append(all, catalog.Configured{Name: name, Category: []string{"dev", "crm", "data"}[len(all)%3]})
	}
	c, err := catalog.Open(catalog.Config{Dir: t.TempDir(), Servers: all})
	if err != nil {
		t.Fatal(err)
	}
	for name, names := range tools {
		var listing catalog.Listing
		for tool := range strings.FieldsSeq(names) {
			listing.Tools = append(listing.Tools, toolpkg.Definition{Ref: toolpkg.Ref{Server: name, Tool: tool},
				Input: []byte(`{"type":"object"}`)})
		}
		if _, err := c.Put(t.Context(), name, listing); err != nil {
			t.Fatal(err)
		}
	}
	return lookup.New(lookup.Config{Catalog: c})
}

// nineteen are servers of a team.
var nineteen = map[string]string{
	"crm": "list_contacts get_contact create_deal list_deals", "github": "list_issues create_pull_request search_code",
	"notion": "search_pages create_page query_database",
	"slack":  "post_message list_channels", "gmail": "search_emails draft_email", "sentry": "list_errors resolve_error",
	"kubernetes": "list_pods get_logs",
	"playwright": "take_screenshot click_element", "memory": "create_entities search_nodes", "firecrawl": "scrape_url map_site",
	"stripe": "list_invoices create_refund",
	"shop":   "list_orders get_customer update_stock", "weather": "get_forecast", "rates": "convert_currency",
	"calendar": "list_events create_event",
	"jira":     "list_tickets transition_ticket", "drive": "list_files share_file", "maps": "find_route geocode_address",
	"payments": "list_payments issue_payout",
}

type listed struct {
	Name, Description string
	InputSchema       json.RawMessage
	Meta              map[string]any `json:"_meta"`
}

func listTools(t *testing.T, s *mcpserver.Server) []listed {
	t.Helper()
	var answer struct{ Result struct{ Tools []listed } }
	line := ask(t, s, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Result.Tools
}

// ask sends the first message of a connection and returns the answer.
func ask(t *testing.T, s *mcpserver.Server, message string) []byte {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(t.Context(), inR, outW) }()
	if _, err := io.WriteString(inW, message+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(outR).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	inW.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return line
}
