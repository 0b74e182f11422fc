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
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Config of a Daemon.
type Config struct {
	config.Config        // required
	Version       string // of this build; required
	Served        bool   // to clients of other people, over HTTP
	// Stderr receives the log unless the configuration names a file; nil means discard.
	Stderr io.Writer
	// Console receives traces whose endpoint is the console; nil means discard.
	Console io.Writer
	// Installing reports progress while CPython is extracted on first use, from one
	// goroutine at a time; nil means none.
	Installing func(stage string, done, total int)
	// Output is called with each output item as it is printed, for callers that run
	// one execution at a time; nil means none.
	Output func(item []byte)
	// Backend replaces the sandbox, for tests; nil means the configured one.
	Backend func(context.Context) (sandbox.Backend, error)
}

// Daemon is a running Sandpiper. Its fields may be used until Close.
type Daemon struct {
	Tenants *home.Homes       // data of all tenants
	Runner  *execution.Runner // runs code
	Servers *servers          // connected MCP servers and their tools
	Find    *lookup.Finder    // searches and describes tools
	Meaning *embedding.Index  // finds tools by meaning; nil if no model is configured
	Privacy *redact.Rules     // redaction and flows
	Policy  *policy.Policy    // decides on tool calls
	Guard   *guardrail.Guard  // checks code and calls; nil if guardrails are off
	Audit   *audit.Log        // the audit log

	Telemetry *telemetry.Recorder // nil if nothing is exported

	cfg      Config
	log      *slog.Logger
	logFile  io.Closer
	noTenant atomic.Pointer[redact.Exit] // for text that belongs to no tenant
	master   vault.Master                // wraps the keys of tenants' vaults
	self     *journal.Process            // this process, in the data directory
	backend  *lazyBackend
	hand     []codegen.Server // handwritten modules
	server   *mcpserver.Server
	pass     *passthrough.Face // lists the servers' own tools
	started  sync.Once         // starts Servers once
	refused  *refusals         // counts rejected tokens
	scrape   func()            // stops the metrics listener; nil if there is none
	close    func() error
}

// New builds a daemon. It takes no resource that other daemons need.
func New(cfg Config) (*Daemon, error) {
	d := &Daemon{cfg: cfg}
	d.close = sync.OnceValue(d.shutdown)
	if err := d.openLog(); err != nil {
		return nil, err
	}
	if err := d.build(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for _, w := range cfg.Warnings {
		d.log.Warn(w)
	}
	for _, f := range d.Policy.Findings(policy.Inventory{Servers: d.configured()}) { // tools may not be listed yet
		d.log.Warn(f.String())
	}
	return d, nil
}

func (d *Daemon) build() (err error) {
	if err := d.openTelemetry(); err != nil {
		return err
	}
	if d.Policy, err = policy.New(d.cfg.Policy); err != nil { // before opening anything that policy applies to
		return err
	}
	if d.cfg.ServersDir != "" {
		if d.hand, err = codegen.ReadHandwritten(d.cfg.ServersDir); err != nil {
			d.log.Warn("SERVERS_DIR has no effect", "error", err)
		}
	}
	if err := d.openPrivacy(); err != nil {
		return err
	}
	d.self = journal.NewProcess(d.dir("processes"), func() ([]byte, error) { return derive(d.cfg.DataDir, "journal", "the journal", true) })
	homes := home.Config{Root: d.cfg.DataDir, Quota: d.cfg.Workspace.Quota, Results: d.cfg.Workspace.Results, Modules: modulesKey(d.cfg.Servers, d.hand), Vault: d.vault, Redact: d.redactFor, Approvals: d.approvals, Process: d.self, RecordTokens: d.Telemetry.Tokens, Log: d.log}
	if d.Tenants, err = home.Open(context.Background(), homes); err != nil {
		return err
	}
	if err = d.pinKey(); err != nil { // before writing anything with another key
		return err
	}
	if err = d.checkKeys(); err != nil {
		return err
	}
	if d.Audit, err = openAudit(d.cfg.DataDir, d.cfg.Audit, d.log); err != nil {
		return err
	}
	d.refused = newRefusals(d.Audit.AppendLater)
	if d.cfg.SkillsDir != "" {
		d.importSkills()
	}
	if err := d.openEmbedding(); err != nil {
		return err
	}
	if err := d.openServers(); err != nil {
		return err
	}
	d.Find = lookup.New(lookup.Config{Catalog: d.Servers.Catalog, States: d.Servers.Set.States, Embeddings: d.Meaning, Untrusted: d.cfg.Untrusted})
	calls := toolcall.New(toolcall.Config{
		Catalog: d.Servers.Catalog, Upstream: d.Servers.Set, AwaitTools: d.Servers.Know, OnTextResult: d.Servers.markText,
		Policy: d.Policy, Guard: d.Guard, Audit: d.Audit.AppendLater, Telemetry: d.Telemetry, Log: d.log,
	})
	if d.cfg.Backend == nil {
		d.cfg.Backend = d.process
	}
	d.backend = newLazyBackend(d.makeBackend)
	var backend sandbox.Backend = d.backend
	if d.cfg.Output != nil {
		backend = outputTap{backend, d.cfg.Output}
	}
	queue := admit.New(d.cfg.Admit)
	d.Runner, err = execution.New(execution.Config{
		Backend: backend, Queue: queue, Limits: d.cfg.Limits, Restricted: d.cfg.Restricted,
		Sandbox:  sandbox.Limits{WorkspaceDisk: d.cfg.Workspace.Quota.Bytes, WorkspaceFiles: d.cfg.Workspace.Quota.Files},
		Sessions: d.cfg.Sessions, Privacy: d.Privacy, Guard: d.Guard, OutputBytes: int64(d.cfg.Guardrails.MaxOutput),
		Audit: d.Audit.AppendLater, Telemetry: d.Telemetry, Log: d.log,
		Tools: &execution.Tools{Catalog: d.Servers.Catalog, Calls: calls, Find: d.Find, Servers: d.Servers.Set, HandWritten: d.Servers.handwritten()},
	})
	if err != nil {
		return err
	}
	if err := d.openServer(calls); err != nil {
		return err
	}
	return d.addGauges(queue)
}

// openServer builds the MCP server.
func (d *Daemon) openServer(calls *toolcall.Stack) error {
	d.pass = passthrough.New(passthrough.Config{Catalog: d.Servers.Catalog, Calls: calls, Servers: d.Servers.Set})
	states, err := derive(d.cfg.DataDir, "state", "request state", true)
	if err != nil {
		return err
	}
	d.server, err = mcpserver.New(mcpserver.Config{
		Key:     states,
		Version: d.cfg.Version, Python: python.Version, Profile: mcpserver.Profile(d.cfg.Profile), Tenant: tenant.Local,
		Tenants: d.Tenants, Runner: d.Runner, Privacy: d.Privacy, Sandbox: d.sandbox, Log: d.log,
		Find: d.Find, Servers: d.modules(), Passthrough: d.pass, Packages: packages.Names(d.cfg.Packages), Telemetry: d.Telemetry,
	})
	return err
}

// importSkills imports the skills in SKILLS_DIR for the local tenant.
func (d *Daemon) importSkills() {
	ctx := context.Background()
	home, err := d.Tenants.Acquire(ctx, tenant.Local)
	if err != nil {
		d.log.Warn("SKILLS_DIR has no effect", "error", err)
		return
	}
	names, err := home.Skills.Import(ctx, d.cfg.SkillsDir)
	if err = errors.Join(err, home.Release(ctx)); err != nil {
		d.log.Warn("not all skills were imported", "directory", d.cfg.SkillsDir, "error", err)
	}
	if len(names) > 0 {
		d.log.Info("imported skills", "directory", d.cfg.SkillsDir, "names", names)
	}
}

// modules returns the module names of the configured servers.
func (d *Daemon) modules() (names []string) {
	for _, s := range d.Servers.Catalog.Now().Servers {
		if s.Connected {
			names = append(names, s.Module)
		}
	}
	return names
}

// makeBackend starts the sandbox, and logs if that fails.
func (d *Daemon) makeBackend(ctx context.Context) (sandbox.Backend, error) {
	b, err := d.cfg.Backend(ctx)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("the sandbox does not work; executions are refused; run sandpiper doctor", "error", err)
	}
	return b, err
}

// dir returns a directory of the data directory.
func (d *Daemon) dir(name string) string { return filepath.Join(d.cfg.DataDir, name) }

// CheckTenant returns an error for a tenant that has neither data nor a token, whose
// id is probably misspelled.
func (d *Daemon) CheckTenant(id tenant.ID) error {
	for _, t := range d.cfg.HTTP.Tokens {
		if t.Tenant == id {
			return nil
		}
	}
	has, err := d.Tenants.Exists(id)
	if err != nil || has || id == tenant.Local {
		return err
	}
	return fault.New(fault.NotFound, "there is no tenant %q", id).
		WithHint("a tenant has a token in http.tokens, or data from an earlier call")
}

// DataDir returns the data directory.
func (d *Daemon) DataDir() string { return d.cfg.DataDir }

// Warm starts the sandbox and lists the servers' tools, in the background.
func (d *Daemon) Warm() {
	_, _ = d.backend.start()
	d.started.Do(d.Servers.start)
}

// prepare starts what the profile needs: passthrough needs no sandbox.
func (d *Daemon) prepare() {
	d.recordChanges()
	d.startScrape()
	if !d.isPassthrough() {
		d.Warm()
		return
	}
	if len(d.cfg.Servers) == 0 {
		d.log.Warn("the profile passthrough lists the tools of servers, but no server is configured; see docs/passthrough.md")
	}
	d.started.Do(d.Servers.start)
}

func (d *Daemon) isPassthrough() bool { return d.cfg.Profile == string(mcpserver.Passthrough) }

// Serve serves MCP over two streams until the client disconnects or ctx ends, then ends
// running calls within a limited time.
func (d *Daemon) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	d.prepare()
	return d.server.ServeStdio(ctx, in, out)
}

// Probe reports the isolation in force by attacking it. It waits until the sandbox is
// ready.
func (d *Daemon) Probe(ctx context.Context) sandbox.Report { return d.backend.Probe(ctx) }

// sandbox returns the name of the backend, and an error if it does not work.
func (d *Daemon) sandbox(ctx context.Context) (string, error) {
	_, err := d.backend.wait(ctx)
	return "process", err
}

// Stats returns the usage and limits of one tenant, and the state of the sandbox.
func (d *Daemon) Stats(ctx context.Context, home *home.Home) (mcpserver.Stats, error) {
	return d.server.Stats(ctx, home)
}

// Listing returns the tools that a profile lists.
func (d *Daemon) Listing(p mcpserver.Profile) []mcpserver.Listed { return d.server.Listing(p) }

// Close ends all executions and servers within a limited time. It is idempotent.
func (d *Daemon) Close() error { return d.close() }

// grace is how long Close lets running executions finish.
const grace = time.Second

func (d *Daemon) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var errs []error
	if d.Runner != nil {
		errs = append(errs, d.Runner.Close(ctx))
	}
	if d.scrape != nil {
		d.scrape()
	}
	if d.pass != nil {
		d.pass.Close()
	}
	if d.Servers != nil {
		d.Servers.close()
	}
	if d.Meaning != nil {
		errs = append(errs, d.Meaning.Close())
	}
	if d.backend != nil {
		errs = append(errs, d.backend.Close())
	}
	if d.Tenants != nil {
		errs = append(errs, d.Tenants.Close())
	}
	if d.refused != nil {
		d.refused.close()
	}
	if d.self != nil { // after the executions
		errs = append(errs, d.self.Close())
	}
	if d.Audit != nil { // after all writers
		errs = append(errs, d.Audit.Close())
	}
	d.Telemetry.Close()
	if d.logFile != nil {
		errs = append(errs, d.logFile.Close())
	}
	return errors.Join(errs...)
}

// openLog opens the log. It never writes to stdout, which is reserved for the protocol.
func (d *Daemon) openLog() error {
	w := d.cfg.Stderr
	if d.cfg.Log.File != "" {
		f, err := openLogFile(d.cfg.Log)
		if err != nil {
			return fmt.Errorf("open the log: %w", err)
		}
		w, d.logFile = f, f
	}
	if w == nil {
		w = io.Discard
	}
	d.log = slog.New(redacting{slog.NewTextHandler(w, &slog.HandlerOptions{Level: d.cfg.Log.Level}), d.redact})
	return nil
}

// openLogFile opens the log file and creates its directory. A project's log file stays
// in the project's directory, even through symbolic links.
func openLogFile(log config.Log) (*os.File, error) {
	const flags, mode = os.O_CREATE | os.O_APPEND | os.O_WRONLY, 0o600
	if log.Root == "" {
		if err := os.MkdirAll(filepath.Dir(log.File), 0o700); err != nil {
			return nil, err
		}
		return os.OpenFile(log.File, flags, mode)
	}
	root, err := os.OpenRoot(log.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name, err := filepath.Rel(log.Root, log.File)
	if err != nil {
		return nil, err
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, flags, mode)
}
