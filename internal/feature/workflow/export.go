package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// MaxExports limits the exported workflows that a tenant saves: a model reads all of them.
const MaxExports = 50

// exports are the exported workflows as tools. They leave out those that cannot be parsed, or that have
// the name of a tool of Sandpiper; Describe gives the reason.
type exports struct {
	flows *Service
	homes *home.Homes
}

// Exported returns the exported workflows as tools of their tenants.
func Exported(of *Service, homes *home.Homes) builtin.Exports { return exports{of, homes} }

func (e exports) Tools(ctx context.Context, h *home.Home) (tools []builtin.Tool, err error) {
	names, err := e.flows.Names(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		one, ok, err := e.Find(ctx, h, name)
		if err != nil {
			return nil, err
		}
		if ok {
			tools = append(tools, one)
		}
	}
	return tools, nil
}

// Find returns the tool that runs a workflow: run_workflow with its name.
func (e exports) Find(ctx context.Context, h *home.Home, name string) (t builtin.Tool, ok bool, err error) {
	found, err := e.flows.source(ctx, h, name)
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Invalid {
		return t, false, nil
	}
	if err != nil || !strings.Contains(string(found.data), "export") { // cheaper than parsing it
		return t, false, err
	}
	w := e.flows.summaries.of(found).workflow
	// a file may have another name
	if w == nil || !w.Export || e.flows.isTool(w.Name) || e.flows.isTool(name) || len(name) > maxExportName {
		return t, false, nil
	}
	return builtin.Tool{
		Name:        name,
		Description: cmp.Or(w.Description, "Run the workflow "+name+"."),
		Schema:      w.objectSchema(),
		MaxChars:    longestRun,
		Label:       "run_workflow", // names of tenants are no labels
		Hints:       wire.Hints{Destructive: true},
		Start: func(ctx context.Context, c builtin.Call) (*execution.Execution, error) {
			return e.flows.run(ctx, c.Home, c.Subset, name, c.Arguments)
		},
	}, true, nil
}

func (e exports) Version() string { return e.flows.version() }

func (e exports) TenantVersion(id tenant.ID) string {
	return fmt.Sprint(e.homes.LastChange(id, saved.Feature).UnixNano())
}

// objectSchema returns the schema of the inputs, with the type that a tool's schema must have.
func (w *Workflow) objectSchema() json.RawMessage {
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(w.Inputs, &members) // no inputs
	members["type"] = json.RawMessage(`"object"`)
	raw, err := json.Marshal(members)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return raw
}

// checkRoom reports that no other workflow can be exported.
func (e exports) checkRoom(ctx context.Context, h *home.Home, name string) error {
	all, err := e.Tools(ctx, h)
	others := slices.DeleteFunc(all, func(t builtin.Tool) bool { return t.Name == name })
	if err == nil && len(others) >= MaxExports {
		return fault.New(fault.Exhausted, "%d other workflows are exported; at most %d are allowed", len(others), MaxExports).
			WithHint("save it without `export`, or delete another one")
	}
	return err
}
