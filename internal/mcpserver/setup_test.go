package mcpserver_test

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	toolpkg "github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// newServer returns a server with real parts except the sandbox, which is fake.
func newServer(t testing.TB, profile builtin.Profile) *mcpserver.Server {
	t.Helper()
	return newServerOn(t, profile, compiling{fake.New(fake.Config{})})
}

// manyServers are more servers than a tool description lists.
var manyServers = strings.Fields("git_hub brave_search chrome_devtools sequential_thinking filesystem google_maps elasticsearch " +
	"next_devtools shopify_dev mongodb_atlas kubernetes hubspot memory sentry notion")

// finder returns a Finder of some tools of a configured server and one of a server that is only in
// the static catalog.
func finder(t testing.TB, dir string) *lookup.Finder {
	t.Helper()
	c, err := catalog.Open(catalog.Config{
		Dir: dir, Servers: []catalog.Configured{{Name: "git-hub", Category: "dev"}},
		Static: []catalog.Static{{Core: []string{"shodan"}, Categories: map[string]catalog.StaticCategory{"security": {
			Description: "Security tools", Tools: map[string]catalog.StaticTool{"scan": {
				Server: "shodan", Description: "Scan hosts for open ports. Slowly.", Functions: []string{"scan_host"},
				UseCases: []string{"audit a network"},
			}},
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Put(t.Context(), "git-hub", catalog.Listing{Title: "GitHub", Tools: []toolpkg.Definition{
		{Ref: toolpkg.Ref{Server: "git-hub", Tool: "list-issues"}, Description: "List the issues of a repository. Newest first.",
			Input: []byte(`{"type":"object","required":["owner"],"properties":{"owner":{"type":"string"},"state":{"enum":["open","closed"]}}}`)},
		{Ref: toolpkg.Ref{Server: "git-hub", Tool: "create-issue"}, Description: "Create an issue.",
			Input:  []byte(`{"type":"object","required":["title"],"properties":{"title":{"type":"string"}}}`),
			Output: []byte(`{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"]}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return lookup.New(lookup.Config{Catalog: c})
}

// compiling wraps the fake backend, which cannot run Python. It answers the check whether a skill
// compiles: a skill compiles unless it contains "does not".
type compiling struct{ sandbox.Backend }

func (c compiling) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := c.Backend.Open(ctx, spec)
	return compiler{s}, err
}

type compiler struct{ sandbox.Sandbox }

func (c compiler) Run(ctx context.Context, p sandbox.Program, h sandbox.Host) (sandbox.Outcome, error) {
	if !strings.Contains(p.Code, "literals.checked(source") {
		return c.Sandbox.Run(ctx, p, h)
	}
	p.Code = "result null"
	if strings.Contains(string(p.Vars), "does not") {
		p.Code = `result {"line": 1, "message": "invalid syntax"}`
	}
	return c.Sandbox.Run(ctx, p, h)
}

func newServerOn(t testing.TB, profile builtin.Profile, backend sandbox.Backend) *mcpserver.Server {
	t.Helper()
	return newServerIn(t, filepath.Join(t.TempDir(), "data"), profile, backend)
}

// newServerIn returns a server with a data directory that other servers may share.
func newServerIn(t testing.TB, data string, profile builtin.Profile, backend sandbox.Backend) *mcpserver.Server {
	t.Helper()
	return newServerFor(t, data, profile, execution.Config{Backend: backend})
}

// newServerFor returns a server that runs code as configured in cfg.
func newServerFor(t testing.TB, data string, profile builtin.Profile, cfg execution.Config) *mcpserver.Server {
	t.Helper()
	return newServerOf(t, data, mcpserver.Config{Profile: profile}, cfg)
}

// newServerOf returns a server with a Config, and fills in its missing parts.
func newServerOf(t testing.TB, data string, server mcpserver.Config, cfg execution.Config) *mcpserver.Server {
	t.Helper()
	process := journal.NewProcess(filepath.Join(data, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	master, err := vault.OpenMaster(t.Context(), "file", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	homes, err := home.Open(t.Context(), home.Config{Root: data, Process: process, Vault: func(id tenant.ID, db *store.DB) *vault.Vault {
		return vault.New(vault.Config{DB: db, Tenant: id, Master: master})
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { homes.Close(); process.Close() })
	cfg.Queue = admit.New(admit.Config{Concurrent: 64})
	runner, err := execution.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	scheduler := background.New(background.Config{Homes: homes, Runner: runner})
	scheduler.Start()
	t.Cleanup(func() { scheduler.Stop(); runner.Close(context.Background()); scheduler.Wait() })
	server.Background = scheduler
	server.Tools = slices.Concat(schedule.Tools(tenantSchedules{}), skill.Tools(runner), state.Tools())
	server.Resources = []builtin.Resources{skill.Resources()}
	rules, err := redact.New(redact.Config{Mode: redact.Off})
	if err != nil {
		t.Fatal(err)
	}
	server.Version, server.Python, server.Tenant, server.Tenants, server.Runner = "v1.2.3", "3.14.6", tenant.Local, homes, runner
	server.Privacy = cmp.Or(server.Privacy, rules)
	server.Servers = func() []string { return manyServers }
	if server.Find == nil {
		server.Find = finder(t, filepath.Join(data, "catalog"))
	} else {
		server.Servers = func() []string { return lookup.ConnectedTo(server.Find).Modules }
	}
	server.Sandbox = func(context.Context, tenant.ID) (string, error) { return "fake", nil }
	var s *mcpserver.Server
	flows, err := workflow.New(workflow.Config{Runner: runner, Dir: filepath.Join(data, "workflows"),
		IsTool: func(name string) bool { return s.HasTool(name) }})
	if err != nil {
		t.Fatal(err)
	}
	server.Tools, server.Exports = append(server.Tools, workflow.Tools(flows)...), workflow.Exported(flows, homes)
	if s, err = mcpserver.New(server); err != nil {
		t.Fatal(err)
	}
	return s
}

// tenantSchedules has the schedules of a tenant, without a configuration and without approvals.
type tenantSchedules struct{}

func (tenantSchedules) List(ctx context.Context, h *home.Home) ([]schedule.Schedule, error) {
	return schedule.Open(h).List(ctx, time.Now(), nil)
}

func (tenantSchedules) Create(ctx context.Context, h *home.Home, s schedule.Spec, _ toolpkg.Call) (schedule.Schedule, error) {
	return schedule.Open(h).Create(ctx, time.Now(), nil, s)
}

func (tenantSchedules) Delete(ctx context.Context, h *home.Home, name string) error {
	return schedule.Open(h).Delete(ctx, time.Now(), nil, name)
}
