package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/bench/build"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// countJob prints the tokens of one job: to find a tool, to get its definition, and to
// filter 10,000 rows that it returns. All sides have the same upstream servers, the same
// query, and code that does the same. Tokens are those of o200k: names, descriptions and
// schemas of tools/list, and arguments and text of each call.
func (h *environment) countJob(ctx context.Context) error {
	all, skipped, err := h.jobSides(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"tokens of one job", "tools/list", "find", "define", "filter", "beyond tools/list", "whole"}}
	for _, s := range all {
		counts, err := s.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		row, calls := []string{s.name}, 0
		for i, n := range counts {
			row = append(row, fmt.Sprint(n))
			if i > 0 {
				calls += n
			}
		}
		rows = append(rows, append(row, fmt.Sprint(calls), fmt.Sprint(calls+counts[0])))
	}
	report.PrintTable(os.Stdout, rows)
	if skipped != nil {
		fmt.Printf("skipped fastmcp: %v\n", skipped)
	}
	return nil
}

// The job: the query, and the code in two dialects, which return the same value.
const (
	jobQuery   = "query the database with SQL"
	filterCode = `from servers.db import query
rows, last = [], 0
while page := query(sql="SELECT * FROM orders WHERE id > ? ORDER BY id LIMIT 1000", parameters=[last])["rows"]:
    rows += page
    last = page[-1]["id"]
paid = [r for r in rows if r["status"] == "paid"]
result = {"rows": len(rows), "paid": len(paid), "sum": round(sum(r["amount"] for r in paid), 2)}`
	filterCodeMode = `rows, last = [], 0
while True:
    page = (await call_tool("db_query", {"sql": "SELECT * FROM orders WHERE id > ? ORDER BY id LIMIT 1000", "parameters": [last]}))["rows"]
    if not page:
        break
    rows += page
    last = page[-1]["id"]
paid = [r for r in rows if r["status"] == "paid"]
return {"rows": len(rows), "paid": len(paid), "sum": round(sum([r["amount"] for r in paid]), 2)}`
	jobResult = `"rows":10000,"paid":7000`
)

// jobServers builds the upstream servers of the examples, and creates the table.
func (h *environment) jobServers(ctx context.Context) (map[string]map[string]any, error) {
	root, err := build.Root(ctx)
	if err != nil {
		return nil, err
	}
	if err := build.Packages(ctx, h.dir+"/", "./examples/servers/..."); err != nil {
		return nil, err
	}
	program := func(name string, args ...string) map[string]any {
		return map[string]any{"command": filepath.Join(h.dir, name), "args": append([]string{}, args...)}
	}
	servers := map[string]map[string]any{"calculator": program("calculator"), "weather": program("weather"),
		"db": program("database", filepath.Join(h.dir, "orders.db"))}
	setup, err := h.withServers(ctx, servers, "setup", "exec", filepath.Join(root, "examples/03_data_filtering/setup.py"))
	if err != nil {
		return nil, err
	}
	if out, err := setup.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("create the table: %w\n%s", err, out)
	}
	return servers, nil
}

// withServers returns a command of Sandpiper with these servers and data of its own.
func (h *environment) withServers(ctx context.Context, servers map[string]map[string]any, data string, args ...string) (*exec.Cmd, error) {
	dir := filepath.Join(h.dir, "job-"+data)
	config, err := rig.WriteConfig(dir, rig.Args{"servers": servers,
		"policy": rig.Args{"rules": []rig.Args{{"tool": "db.execute", "decision": "allow"}}}})
	if err != nil {
		return nil, err
	}
	r := rig.New(rig.Config{Binary: h.binary, Dir: dir, Cache: filepath.Join(h.dir, "cache")})
	return r.Command(ctx, append([]string{args[0], "--config", config}, args[1:]...)...), nil
}

// jobSide is a server that does the job with three calls.
type jobSide struct {
	name    string
	command *exec.Cmd
	calls   []*mcp.CallToolParams
}

// jobSides returns Sandpiper in two profiles, and fastmcp unless it cannot be installed.
func (h *environment) jobSides(ctx context.Context) (all []jobSide, skipped, err error) {
	servers, err := h.jobServers(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, profile := range []string{"lean", "standard"} {
		command, err := h.withServers(ctx, servers, profile, "serve", "--profile", profile)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, jobSide{"sandpiper, " + profile, command, []*mcp.CallToolParams{
			{Name: "search_tools", Arguments: map[string]any{"query": jobQuery}},
			{Name: "get_tool_definition", Arguments: map[string]any{"tool_name": "db.query"}},
			{Name: "execute_code", Arguments: map[string]any{"code": filterCode}},
		}})
	}
	python, skipped := h.pip(ctx)
	config, err := json.Marshal(map[string]any{"mcpServers": servers})
	if skipped != nil || err != nil {
		return all, skipped, err
	}
	return append(all, jobSide{"fastmcp " + fastmcpVersion + ", CodeMode",
		exec.CommandContext(ctx, python, writeDriver(h.dir, "codemode.py"), string(config)), []*mcp.CallToolParams{
			{Name: "search", Arguments: map[string]any{"query": jobQuery}},
			{Name: "get_schema", Arguments: map[string]any{"tools": []string{"db_query"}}},
			{Name: "execute", Arguments: map[string]any{"code": filterCodeMode}},
		}}), nil, nil
}

// measure returns the tokens of the list of tools and of each call.
func (s jobSide) measure(ctx context.Context) (counts []int, err error) {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "job-tokens", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: s.command}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	counts = []int{0}
	for _, t := range list.Tools {
		counts[0] += tokens.Count(t.Name + "\n" + t.Description + "\n" + compactJSON(t.InputSchema))
	}
	text := ""
	for _, c := range s.calls {
		answer, err := session.CallTool(ctx, c)
		if err != nil {
			return nil, err
		}
		if text = ""; len(answer.Content) > 0 {
			if t, ok := answer.Content[0].(*mcp.TextContent); ok {
				text = t.Text
			}
		}
		counts = append(counts, tokens.Count(compactJSON(c.Arguments))+tokens.Count(text))
		if answer.IsError || text == "" {
			return nil, fmt.Errorf("%s answered %.300s", c.Name, text)
		}
	}
	if !strings.Contains(strings.ReplaceAll(text, " ", ""), jobResult) {
		return nil, fmt.Errorf("the result is %.300s, want %s", text, jobResult)
	}
	return counts, nil
}

func compactJSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}
