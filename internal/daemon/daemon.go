// Package daemon builds a running Sandpiper from all other packages, for MCP clients or
// for one command line.
//
// New returns quickly; Python is extracted and the first sandbox started in the
// background, so that a client can initialize at once. A daemon without a working
// sandbox still serves files and skills, and refuses executions with a hint. Several
// daemons may share a data directory: each holds lock files and cleans up only after
// daemons whose locks are free.
//
// A Daemon is safe for concurrent use.
package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Config of a Daemon.
type Config struct {
	config.Config           // required
	Features      []Feature // besides the core
	Version       string    // of this build; required
	Served        bool      // to clients of other people, over HTTP
	ConfigFile    string    // see mcpserver.Config
	// Tenant is the tenant of clients without a token. The zero ID means tenant.Local.
	Tenant tenant.ID
	// Stderr receives the log unless the configuration names a file; nil means discard.
	Stderr io.Writer
	// Handler receives the log instead of Stderr, unless the configuration names a file; nil
	// means Stderr.
	Handler slog.Handler
	// Console receives traces whose endpoint is the console; nil means discard.
	Console io.Writer
	// Installing reports progress while CPython is extracted on first use, from one
	// goroutine at a time; nil means none.
	Installing func(stage string, done, total int)
	// Load reads the configuration again; nil means that it cannot be reloaded.
	Load func() (*config.Config, error)
	// Reloads makes a daemon that serves clients reload its configuration, for each value;
	// nil means never.
	Reloads <-chan os.Signal
	// Warm starts the sandbox while the rest of the daemon is built.
	Warm bool
	// Output is called with each output item as it is printed, for callers that run
	// one execution at a time; nil means none.
	Output func(item []byte)
	// Backend replaces the sandbox, for tests; nil means the configured one.
	Backend func(context.Context) (sandbox.Backend, error)
}

// Daemon is a running Sandpiper. Its exported fields may be used until Close.
type Daemon struct {
	Tenants *home.Homes       // data of all tenants
	Runner  *execution.Runner // runs code
	// Background runs background executions, once the daemon is prepared.
	Background *background.Scheduler
	Tiers      *Tiers
	HTTP       HTTP
	tools                    // upstream servers, and calls of their tools
	Privacy    *redact.Rules // redacts what leaves the daemon, by the configuration in force

	cfg  Config // that the daemon was started with; see now
	live live
	log  *logger

	reloading sync.Mutex // held by Reload
	callers   *callers   // of HTTP, nil unless it is served; guarded by reloading
	mcp       *wire.HTTP // likewise
	prepared  sync.Once  // of prepare

	parts   parts // started features
	metrics *metrics
	data    *data
	backend *layeredBackend
	server  *mcpserver.Server

	memory  *memory.Budget // for requests of tenants and their answers
	access  *accessLog     // nil without one
	closing closers
}

// tools contains the tools that code can call, and the search for them.
type tools struct {
	Servers *servers       // connected MCP servers and their tools
	Find    *lookup.Finder // searches and describes tools
	Meaning Embedder       // semantic search; nil if no model is configured

	calls *toolcall.Stack
}

// New builds a daemon. It takes no resource that other daemons need.
func New(cfg Config) (*Daemon, error) {
	if cfg.Tenant.IsZero() {
		cfg.Tenant = tenant.Local
	}
	d := &Daemon{cfg: cfg}
	d.HTTP = HTTP{d}
	if err := (builder{d}).build(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for _, w := range cfg.Warnings {
		d.log.Warn(w)
	}
	for _, f := range d.Policy().Findings(policy.Inventory{Servers: configuredNames(d.Servers)}) { // tools may not be listed yet
		d.log.Warn(f.String())
	}
	return d, nil
}

// builder opens the parts of a daemon.
type builder struct{ *Daemon }

// build opens the parts. Each is closed before those that it was built from.
func (d builder) build() (err error) {
	if d.log, err = openLog(d.cfg.Log, d.cfg.Stderr, d.cfg.Handler); err != nil {
		return err
	}
	d.log.with.Config = d.cfg.ConfigFile
	d.closing.add(d.log.close)
	log := d.log.Logger
	d.memory = newMemory(func(id tenant.ID) int { return d.data.settings(id).MemoryMB })
	if err := d.openProtection(); err != nil { // before opening anything that it applies to
		return err
	}
	if d.metrics, err = openMetrics(d.cfg, limits(d).tierOfCaller, log); err != nil {
		return err
	}
	d.closing.add(func() error { d.metrics.Close(); return nil })
	hand := readHandwritten(d.cfg.ServersDir, log)
	modules := newModules(d.cfg, hand, log)
	d.data, err = openData(dataConfig{
		Config:    d.cfg,
		Live:      &d.live,
		Modules:   modules,
		Privacy:   d.Privacy,
		Telemetry: d.metrics.Recorder,
		Log:       log,
	})
	if err != nil {
		return err
	}
	d.data.decided = notifier(d).notifyOf
	d.closing.add(d.closeDataAndBackend)
	d.Tenants = d.data.homes
	d.Tiers = &Tiers{d.now, d.Tenants}
	d.data.importSkills(d.cfg.Tenant)
	d.backend = newLayeredBackend(d.cfg, d.Tenants.Roots(), log)
	if d.cfg.Warm {
		_, _ = d.backend.own.start()
	}
	if err := d.openTools(modules); err != nil {
		return err
	}
	return d.openServer()
}

// closeDataAndBackend closes both at once: the kernel needs as long to end the processes of the
// sandbox as SQLite to close databases, and what uses both of them has been closed before.
func (d builder) closeDataAndBackend() error {
	var err error
	var ended sync.WaitGroup
	if d.backend != nil {
		ended.Go(func() { err = d.backend.Close() })
	}
	closed := d.data.close()
	ended.Wait()
	return errors.Join(err, closed)
}

// openProtection loads the protection of the configuration. Its parts are also used for lines of the
// log while the daemon is built.
func (d builder) openProtection() error {
	first, err := reloader(d).newState(&d.cfg.Config)
	if err != nil {
		return err
	}
	d.live.Store(first)
	d.Privacy = redact.Select(func(id tenant.ID) *redact.Rules { return d.live.Load().privacy.of(id) })
	d.log.gate.Store(d.Privacy.For(redact.Owner{}))
	return nil
}

func (d builder) openTools(modules *modules) (err error) {
	if d.Meaning, err = embedder(d.cfg, d.log.Logger); err != nil {
		return err
	}
	if d.Meaning != nil {
		d.closing.add(d.Meaning.Close)
	}
	d.Servers, err = openServers(serversConfig{
		Config:      d.cfg,
		Data:        d.data,
		Modules:     modules,
		Embeddings:  d.Meaning,
		Failed:      notifier(d).serverFailed,
		Quarantined: notifier(d).toolQuarantined,
		Log:         d.log,
	})
	if err != nil {
		return err
	}
	d.closing.add(d.Servers.close)
	d.Find = lookup.New(lookup.Config{
		Catalog:     d.Servers.Catalog,
		States:      d.Servers.states,
		AwaitTools:  d.Servers.Know,
		Embeddings:  d.Meaning,
		Handwritten: d.Servers.functions,
		Untrusted:   d.cfg.Untrusted,
	})
	d.calls = toolcall.New(toolcall.Config{
		Catalog: d.Servers.Catalog, Upstream: d.Servers.Set, UpstreamOf: func(id tenant.ID,
			server string) tool.Caller {
			return d.Servers.own.of(id, server)
		}, AwaitTools: d.Servers.Know,
		Policy: d.Policy, Guard: d.guard, Audit: notifier(d).auditCall, Telemetry: d.metrics.Recorder, Log: d.log.Logger,
	})
	return nil
}

// openServer builds the runner and the MCP server.
func (d builder) openServer() error {
	d.closing.add(d.metrics.closeScrape)
	d.cfg.Admit.Limit = limits(d).concurrent
	queue := admit.New(d.cfg.Admit)
	tools := &execution.Tools{
		Catalog:     d.Servers.Catalog,
		Calls:       d.calls,
		Find:        d.Find,
		Servers:     d.Servers.Set,
		ServersOf:   d.Servers.own.of,
		HandWritten: d.Servers.handwritten,
		Infer:       d.Servers.infer,
	}
	if err := d.newRunner(queue, tools); err != nil {
		return err
	}
	if err := startFeatures(d.Daemon, tools); err != nil {
		return err
	}
	d.Background = d.newBackground()
	d.closing.add(func() error { d.Background.Wait(); return nil })
	d.closing.add(d.closeRunner)
	d.closing.add(func() error { d.Background.Stop(); return nil })
	states, err := d.data.derive("state", "request state", true)
	if err != nil {
		return err
	}
	if d.access, err = openAccessLog(d.cfg.HTTP.AccessLog, limits(d).tierOfCaller, d.log.Logger); err != nil {
		return err
	}
	d.closing.add(d.access.close)
	if d.server, err = mcpserver.New(mcpConfig(d, states)); err != nil {
		return err
	}
	d.closing.add(d.server.Close)
	return d.addGauges(queue)
}

func (d builder) newRunner(queue *admit.Queue, tools *execution.Tools) (err error) {
	var backend sandbox.Backend = d.backend
	if d.cfg.Output != nil {
		backend = outputTap{backend, d.cfg.Output}
	}
	d.Runner, err = execution.New(execution.Config{
		HostCalls: sync.OnceValue(func() []hostcall.Source { return d.parts.hostCalls() }), BackgroundTimeout: d.cfg.Background.Timeout,
		Backend: backend, Queue: queue, Settings: limits(d).executionSettings, SubsetModules: d.data.subsetModules,
		Restriction: restriction(d.cfg), Network: network(d.cfg.Features).Network,
		Sessions: d.cfg.Sessions, Privacy: d.Privacy, Guard: d.guard, Memory: d.memory,
		Audit: notifier(d).auditCall, Telemetry: d.metrics.Recorder, Log: d.log.Logger,
		Tools: tools,
	})
	return err
}

// grace is how long Close lets running executions finish.
const grace = time.Second

func (d builder) closeRunner() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return d.Runner.Close(ctx)
}

// DataDir returns the data directory.
func (d *Daemon) DataDir() string { return d.cfg.DataDir }

// Warm starts the sandbox and lists the servers' tools, in the background. The sandboxes of other
// tenants start when they are opened: most commands run one piece of code.
func (d *Daemon) Warm() {
	_, _ = d.backend.own.start()
	d.Servers.start()
}

// prepare starts what the profile needs, once: a relay needs no sandbox.
func (d *Daemon) prepare() { d.prepared.Do(builder{d}.prepareOnce) }

func (d builder) prepareOnce() {
	limitHeap()
	d.Tenants.Watch(func(id tenant.ID) {
		d.Runner.EndTenant(id)
		d.Servers.own.end(id)
	})
	changes := changes{d.data.dataDir, d.cfg.Sections, reloader(d).lockFiles(), d.data.audit}
	if err := changes.record(); err != nil { // does not prevent the start
		d.log.Warn("configuration changes were not recorded", "error", err)
	}
	d.metrics.startScrape()
	d.Servers.spawn(reloader(d).watchReload)
	d.Background.Start()
	if !d.isRelay() {
		d.backend.startAll()
		startIndexed(d.Servers)
		return
	}
	if len(d.cfg.Servers) == 0 {
		d.log.Warn("the profile " + d.cfg.Profile + " lists the tools of servers, but no server is configured; see docs/" + d.cfg.Profile +
			".md")
	}
	d.Servers.start()
}

// isRelay reports whether clients get what a feature relays, so that no code runs for them.
func (d *Daemon) isRelay() bool { return d.parts.relay(d.cfg.Profile) != nil }

// Serve serves MCP over two streams until the client disconnects or ctx ends, then ends
// running calls within a limited time.
func (d *Daemon) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	if err := (sandboxes{d}).checkBackends(ctx); err != nil {
		return err
	}
	d.prepare()
	return d.server.ServeStdio(ctx, in, out)
}

// ServeTenant is Serve for a client that is a tenant.
func (d *Daemon) ServeTenant(ctx context.Context, id tenant.ID, in io.Reader, out io.Writer) error {
	if err := (sandboxes{d}).checkBackends(ctx); err != nil {
		return err
	}
	d.prepare()
	return d.server.ServeTenant(ctx, id, in, out)
}

// Stats returns the usage and limits of one tenant, and the state of the sandbox.
func (d *Daemon) Stats(ctx context.Context, home *home.Home) (mcpserver.Stats, error) {
	return d.server.Stats(ctx, home)
}

// Listing returns the tools that a profile lists.
func (d *Daemon) Listing(p builtin.Profile) []mcpserver.Listed { return d.server.Listing(p) }

// Record writes an operator's action to the audit log. done describes the action for
// the error, since it has already taken effect.
func (d *Daemon) Record(ctx context.Context, line audit.Line, done string) error {
	return record(ctx, d.data.audit, line, done)
}

// Close ends all executions and servers within a limited time. It is idempotent.
func (d *Daemon) Close() error { return d.closing.close() }
