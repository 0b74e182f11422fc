package daemon

import (
	"context"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Feature is what one capability adds to a daemon; see package feature. Fields that are not set add nothing.
type Feature struct {
	Name    string         // of its package, and of its module in the package sandpiper.features
	Config  config.Section // its keys of the configuration, and its entries of catalog
	Home    home.Feature   // its data of each tenant
	Globals string         // that its Python adds, for the description of execute_code
	// Python is the module of that name, as a file or a package; see package sandbox/worker.
	Python fs.FS
	// Restriction returns the part of Python that its module limits code to; one feature at most has it.
	Restriction func(*config.Config) execution.Restriction
	// Network lets code send HTTP requests; one feature at most has it.
	Network Network
	// Embedder returns what finds tools by their meaning, nil if it is not configured; one feature at most has it.
	Embedder func(*config.Config, *slog.Logger) (Embedder, error)
	// Backend is the kind of sandbox that Config.Sandbox names.
	Backend Backend
	// Start starts the feature once the parts of the core in Core are open.
	Start func(Core) (Part, error)
}

// Network is how code sends HTTP requests. The zero value is not at all.
type Network struct {
	execution.Network
	// Hosts returns the hosts to which code of a tenant with a configuration may send them.
	Hosts func(*config.Config) []string
}

// TenantKind is an optional ability of an upstream.Kind, which may differ between tenants.
type TenantKind interface {
	upstream.Kind
	// For returns that of a tenant with a configuration: the same pointer unless it differs.
	For(*config.Config) upstream.Kind
}

// Backend is how the sandboxes of one kind are started. doctor prints the report of its sandbox.Prober.
type Backend struct {
	// Check reports what this machine lacks for Start, which it does not call; of a sandbox.Config it has State.
	Check func(context.Context, *config.Config, sandbox.Config) error
	Start func(context.Context, *config.Config, sandbox.Config) (sandbox.Backend, error)
}

// Embedder finds tools by their meaning, with a model. It calls the model first when its space is requested.
type Embedder interface {
	catalog.Embedder
	lookup.Embeddings
	Probe(context.Context) error // requests an answer of the model
	Close() error
}

// Core is what features may use of a daemon.
type Core struct {
	Config func() *config.Config // of the daemon, in force
	// ConfigOf returns the configuration in force for a tenant: with the settings of its tier and its own.
	ConfigOf func(tenant.ID) *config.Config
	Tenant   tenant.ID             // of clients without a token
	Known    func(tenant.ID) error // reports a tenant that does not exist
	Homes    *home.Homes           // data of all tenants
	Runner   *execution.Runner     // runs code
	// HasTool reports whether the MCP server has a tool of that name, in any profile. It is called when the
	// daemon is built.
	HasTool func(name string) bool
	// Programs returns the programs of a kind.
	Programs func(kind string) background.Programs
	Tools    *execution.Tools // that code can call, and the search for them
	Privacy  *redact.Rules    // redacts what leaves the daemon
	// Permit reports that the policy or the person does not allow a call.
	Permit func(context.Context, *home.Home, tool.Call) error
	Log    *slog.Logger
}

// Part is a started feature. Fields that are not set add nothing.
type Part struct {
	Value     any                 // for its commands; see Started
	Tools     []builtin.Tool      // for clients
	Resources []builtin.Resources // for clients
	HostCalls hostcall.Source     // of code; without Methods there are none
	About     string              // a line about its Python, for the description of execute_code
	Probes    []ModelProbe        // models that doctor asks
	Exports   builtin.Exports     // tools of single tenants; one feature at most has them
	Programs  background.Programs
	// Compile compiles workflows when they run; one feature at most has it.
	Compile background.Compile
	// Solve solves tasks in words that no client waits for; one feature at most has it.
	Solve background.Solve
	Relay *builtin.Relay // answers clients in a profile of its own, without running code
	// Before is called each time before background executions that are due are claimed.
	Before func(context.Context)
	// Accept refuses another configuration that the feature could not use.
	Accept func(context.Context, *config.Config) error
	// Wrong returns errors in the configuration that the data of tenants shows. It changes nothing.
	Wrong func(context.Context) []error
	// Close is called before the core closes.
	Close func() error
}

// ModelProbe tests for doctor whether a model of a feature works.
type ModelProbe struct {
	Key   string // of the result in JSON
	About string // what it is, such as "model of tasks"
	Model string // its name
	// Run sends the model a small request.
	Run func(context.Context) error
}

// parts are the started features.
type parts []Part

// startFeatures starts the features of a daemon.
func startFeatures(d *Daemon, tools *execution.Tools) error {
	core := Core{
		Config:   d.now,
		ConfigOf: d.data.settings,
		Tenant:   d.cfg.Tenant,
		Known:    d.CheckTenant,
		Homes:    d.Tenants,
		Runner:   d.Runner,
		HasTool:  func(name string) bool { return d.server.HasTool(name) },
		Programs: func(kind string) background.Programs { return d.parts.programs(kind) },
		Tools:    tools,
		Privacy:  d.Privacy,
		Permit:   d.calls.Permit,
		Log:      d.log.Logger,
	}
	for _, f := range d.cfg.Features {
		if f.Start == nil {
			continue
		}
		p, err := f.Start(core)
		if err != nil {
			return err
		}
		if p.Close != nil {
			d.closing.add(p.Close)
		}
		d.parts = append(d.parts, p)
	}
	return nil
}

func (all parts) tools() (tools []builtin.Tool) {
	for _, p := range all {
		tools = append(tools, p.Tools...)
	}
	return tools
}

func (all parts) resources() (resources []builtin.Resources) {
	for _, p := range all {
		resources = append(resources, p.Resources...)
	}
	return resources
}

func (all parts) exports() builtin.Exports {
	for _, p := range all {
		if p.Exports != nil {
			return p.Exports
		}
	}
	return nil
}

// programs returns those of a kind.
func (all parts) programs(kind string) background.Programs {
	for _, p := range all {
		if p.Programs.Kind == kind {
			return p.Programs
		}
	}
	return background.NoPrograms(kind)
}

// compile returns the function that compiles workflows, nil if there is none.
func (all parts) compile() background.Compile {
	for _, p := range all {
		if p.Compile != nil {
			return p.Compile
		}
	}
	return nil
}

// about returns lines about the Python of features.
func (all parts) about() string {
	var lines []string
	for _, p := range all {
		if p.About != "" {
			lines = append(lines, p.About)
		}
	}
	return strings.Join(lines, "\n")
}

// solve returns the function that solves tasks in words, nil if there is none.
func (all parts) solve() background.Solve {
	for _, p := range all {
		if p.Solve != nil {
			return p.Solve
		}
	}
	return nil
}

// relay returns that of a profile, nil if it has none.
func (all parts) relay(profile string) *builtin.Relay {
	for _, p := range all {
		if p.Relay != nil && string(p.Relay.Profile) == profile {
			return p.Relay
		}
	}
	return nil
}

// before lets features add executions that are due.
func (all parts) before(ctx context.Context) {
	for _, p := range all {
		if p.Before != nil {
			p.Before(ctx)
		}
	}
}

// accept refuses a configuration that a feature could not use.
func (all parts) accept(ctx context.Context, c *config.Config) error {
	for _, p := range all {
		if p.Accept == nil {
			continue
		}
		if err := p.Accept(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Started returns the value of a started feature, which has the type T.
func Started[T any](d *Daemon) T {
	for _, p := range d.parts {
		if v, ok := p.Value.(T); ok {
			return v
		}
	}
	panic("the feature was not started") // by a command that is not of it
}

// Wrong returns the errors of features in the configuration that the data of tenants shows.
func Wrong(ctx context.Context, d *Daemon) (all []error) {
	for _, p := range d.parts {
		if p.Wrong != nil {
			all = append(all, p.Wrong(ctx)...)
		}
	}
	return all
}

// Probes returns what doctor tests of features.
func Probes(d *Daemon) (all []ModelProbe) {
	for _, p := range d.parts {
		all = append(all, p.Probes...)
	}
	return all
}

// Modules returns the Python of features.
func Modules(features []Feature) (all []worker.Module) {
	for _, f := range features {
		if f.Python != nil {
			all = append(all, worker.Module{Name: f.Name, Files: f.Python})
		}
	}
	return all
}

// globals returns the names that features add for code.
func globals(features []Feature) string {
	var all []string
	for _, f := range features {
		if f.Globals != "" {
			all = append(all, f.Globals)
		}
	}
	return strings.Join(all, " ")
}

// restriction returns the part of Python that code is limited to.
func restriction(cfg Config) execution.Restriction {
	for _, f := range cfg.Features {
		if f.Restriction == nil {
			continue
		}
		if r := f.Restriction(&cfg.Config); r.On() {
			return r
		}
	}
	return execution.Restriction{}
}

// network returns how code sends HTTP requests.
func network(features []Feature) Network {
	for _, f := range features {
		if f.Network.Hosts != nil {
			return f.Network
		}
	}
	return Network{Hosts: func(*config.Config) []string { return nil }}
}

// embedder returns what finds tools by their meaning; nil if it is not configured.
func embedder(cfg Config, log *slog.Logger) (Embedder, error) {
	for _, f := range cfg.Features {
		if f.Embedder != nil {
			return f.Embedder(&cfg.Config, log)
		}
	}
	return nil, nil
}

// Sections returns the configuration of features.
func Sections(features []Feature) (all []config.Section) {
	for _, f := range features {
		all = append(all, f.Config)
	}
	return all
}

// HomeFeatures returns what features have of each tenant.
func HomeFeatures(features []Feature) (all []home.Feature) {
	for _, f := range features {
		if f.Home.Name != "" {
			all = append(all, f.Home)
		}
	}
	return all
}

// hostCalls returns the calls that code of an execution may make.
func (all parts) hostCalls() (sources []hostcall.Source) {
	for _, p := range all {
		if p.HostCalls.Methods != nil {
			sources = append(sources, p.HostCalls)
		}
	}
	return sources
}
