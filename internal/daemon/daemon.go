// Package daemon puts the rooms together into one running Sandpiper: for an MCP
// client, or for one command line. Everything is built here by explicit calls,
// and nothing below knows that the rest exists.
//
// New does no work that takes time; Python is unpacked and the first sandbox
// warmed in the background, so that a client is greeted at once. A daemon whose
// sandbox cannot work still serves files and skills and refuses executions with
// a hint. Several daemons may share one data directory: each locks what is its
// own and cleans up only after those that died.
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
	config.Config        // what the operator wants; required
	Version       string // of this build; required
	Served        bool   // to others than whoever runs it
	// Stderr takes the log unless the configuration names a file; nil discards.
	Stderr io.Writer
	// Console takes traces if they are to go there; nil discards.
	Console io.Writer
	// Installing is called while CPython is unpacked on first use; nil means
	// silence. It is called by one goroutine at a time.
	Installing func(stage string, done, total int)
	// Output is called with each item that code prints, as it comes, for who
	// runs one execution at a time; nil means nobody watches.
	Output func(item []byte)
	// Backend replaces the sandbox, for tests; nil means what Config says.
	Backend func(context.Context) (sandbox.Backend, error)
}

// Daemon is a running Sandpiper. Its fields may be used until Close.
type Daemon struct {
	Tenants *home.Tenants     // everybody's data
	Runner  *execution.Runner // runs code
	Servers *servers          // connected MCP servers and their tools
	Find    *lookup.Finder    // tells of tools
	Meaning *embedding.Index  // finds tools by meaning; nil if no model is configured
	Privacy *redact.Rules     // what models may see, and servers get
	Policy  *policy.Policy    // which calls of tools may happen
	Guard   *guardrail.Guard  // judges code and calls; nil if guardrails are off
	Audit   *audit.Log        // what happened

	Telemetry *telemetry.Recorder // tells the operator's tools; nil if they want nothing

	cfg     Config
	log     *slog.Logger
	logFile io.Closer
	nobody  atomic.Pointer[redact.Exit] // for texts that belong to no tenant
	master  vault.Master                // wraps the keys of tenants' vaults
	self    *journal.Process            // this one, for others that share the data
	backend *later
	hand    []codegen.Server // modules written by hand
	server  *mcpserver.Server
	pass    *passthrough.Face // what servers have, as it is
	started sync.Once         // of Servers
	refused *refusals         // of clients without a token
	scrape  func()            // ends what Prometheus reads; nil if that does not
	close   func() error
}

// New builds a daemon. It opens nothing that other daemons could miss.
func New(cfg Config) (*Daemon, error) {
	d := &Daemon{cfg: cfg}
	d.close = sync.OnceValue(d.shut)
	if err := d.openLog(); err != nil {
		return nil, err
	}
	if err := d.build(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for _, w := range cfg.Warnings {
		d.log.Warn(w)
	}
	for _, f := range d.Policy.Findings(policy.Known{Servers: d.configured()}) { // its tools may not be known yet
		d.log.Warn(f.String())
	}
	return d, nil
}

func (d *Daemon) build() (err error) {
	if err := d.openTelemetry(); err != nil {
		return err
	}
	if d.Policy, err = policy.New(d.cfg.Policy); err != nil { // before anything is opened that it might be about
		return err
	}
	if d.cfg.ServersDir != "" {
		if d.hand, err = codegen.ReadByHand(d.cfg.ServersDir); err != nil {
			d.log.Warn("SERVERS_DIR has no effect", "error", err)
		}
	}
	if err := d.openPrivacy(); err != nil {
		return err
	}
	d.self = journal.NewProcess(d.dir("processes"), func() ([]byte, error) { return derive(d.cfg.DataDir, "journal", "the journal", true) })
	homes := home.Config{Root: d.cfg.DataDir, Quota: d.cfg.Workspace.Quota, Results: d.cfg.Workspace.Results, Modules: modulesKey(d.cfg.Servers, d.hand), Vault: d.vault, Redact: d.redactFor, Approvals: d.approvals, Process: d.self, Counted: d.Telemetry.Tokens, Log: d.log}
	if d.Tenants, err = home.Open(context.Background(), homes); err != nil {
		return err
	}
	if _, err = d.key().Use(); err != nil { // before anything is written under another key
		return err
	}
	if err = d.checkKeys(); err != nil {
		return err
	}
	if d.Audit, err = openAudit(d.cfg.DataDir, d.cfg.Audit, d.log); err != nil {
		return err
	}
	d.refused = newRefusals(d.Audit.Later)
	if d.cfg.SkillsDir != "" {
		d.takeSkills()
	}
	if err := d.openMeaning(); err != nil {
		return err
	}
	if err := d.openServers(); err != nil {
		return err
	}
	d.Find = lookup.New(lookup.Config{Catalog: d.Servers.Catalog, States: d.Servers.Set.States, Embeddings: d.Meaning, Untrusted: d.cfg.Untrusted})
	calls := toolcall.New(toolcall.Config{
		Catalog: d.Servers.Catalog, Upstream: d.Servers.Set, AwaitTools: d.Servers.Know, OnTextResult: d.Servers.texts,
		Policy: d.Policy, Guard: d.Guard, Audit: d.Audit.Later, Telemetry: d.Telemetry, Log: d.log,
	})
	if d.cfg.Backend == nil {
		d.cfg.Backend = d.process
	}
	d.backend = newLater(d.makeBackend)
	var backend sandbox.Backend = d.backend
	if d.cfg.Output != nil {
		backend = tap{backend, d.cfg.Output}
	}
	queue := admit.New(d.cfg.Admit)
	d.Runner, err = execution.New(execution.Config{
		Backend: backend, Queue: queue, Limits: d.cfg.Limits, Restricted: d.cfg.Restricted,
		Sandbox:  sandbox.Limits{WorkspaceDisk: d.cfg.Workspace.Quota.Bytes, WorkspaceFiles: d.cfg.Workspace.Quota.Files},
		Sessions: d.cfg.Sessions, Privacy: d.Privacy, Guard: d.Guard, OutputBytes: int64(d.cfg.Guardrails.MaxOutput),
		Audit: d.Audit.Later, Telemetry: d.Telemetry, Log: d.log,
		Tools: &execution.Tools{Catalog: d.Servers.Catalog, Calls: calls, Find: d.Find, Servers: d.Servers.Set, HandWritten: d.Servers.byHand()},
	})
	if err != nil {
		return err
	}
	if err := d.openFaces(calls); err != nil {
		return err
	}
	return d.levels(queue)
}

// openFaces makes what clients speak with.
func (d *Daemon) openFaces(calls *toolcall.Stack) error {
	d.pass = passthrough.New(passthrough.Config{Catalog: d.Servers.Catalog, Calls: calls, Servers: d.Servers.Set})
	states, err := derive(d.cfg.DataDir, "state", "what clients give back", true)
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

// takeSkills takes the first users' skills into those of the local tenant, whose
// they were.
func (d *Daemon) takeSkills() {
	ctx := context.Background()
	home, err := d.Tenants.Acquire(ctx, tenant.Local)
	if err != nil {
		d.log.Warn("SKILLS_DIR has no effect", "error", err)
		return
	}
	names, err := home.Skills.Import(ctx, d.cfg.SkillsDir)
	if err = errors.Join(err, home.Release(ctx)); err != nil {
		d.log.Warn("not all skills could be taken", "directory", d.cfg.SkillsDir, "error", err)
	}
	if len(names) > 0 {
		d.log.Info("took skills", "directory", d.cfg.SkillsDir, "names", names)
	}
}

// modules are the Python names of the configured servers.
func (d *Daemon) modules() (names []string) {
	for _, s := range d.Servers.Catalog.Now().Servers {
		if s.Connected {
			names = append(names, s.Module)
		}
	}
	return names
}

// makeBackend makes the sandbox, and tells the operator at once if there is none.
func (d *Daemon) makeBackend(ctx context.Context) (sandbox.Backend, error) {
	b, err := d.cfg.Backend(ctx)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("there is no sandbox, so executions are refused; see sandpiper doctor", "error", err)
	}
	return b, err
}

// dir is a directory of the daemon's own data.
func (d *Daemon) dir(name string) string { return filepath.Join(d.cfg.DataDir, name) }

// Knows refuses a tenant that has neither data nor a token of its own: its id is
// probably misspelled.
func (d *Daemon) Knows(id tenant.ID) error {
	for _, t := range d.cfg.HTTP.Tokens {
		if t.Tenant == id {
			return nil
		}
	}
	has, err := d.Tenants.Has(id)
	if err != nil || has || id == tenant.Local {
		return err
	}
	return fault.New(fault.NotFound, "there is no tenant %q", id).
		WithHint("a tenant has a token in http.tokens of the configuration, or data from an earlier call")
}

// DataDir is where everybody's data is.
func (d *Daemon) DataDir() string { return d.cfg.DataDir }

// Warm begins to make the sandbox ready and to ask servers for their tools,
// without waiting for it.
func (d *Daemon) Warm() {
	_, _ = d.backend.start()
	d.started.Do(d.Servers.start)
}

// ready prepares for clients of the profile: those of passthrough need no sandbox.
func (d *Daemon) ready() {
	d.noteChanges()
	d.startScrape()
	if !d.passes() {
		d.Warm()
		return
	}
	if len(d.cfg.Servers) == 0 {
		d.log.Warn("the profile passthrough shows what servers have, and none is configured; see docs/passthrough.md")
	}
	d.started.Do(d.Servers.start)
}

func (d *Daemon) passes() bool { return d.cfg.Profile == string(mcpserver.Passthrough) }

// Serve speaks MCP over two streams until the client leaves or ctx ends, and
// ends what runs within bounded time.
func (d *Daemon) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	d.ready()
	return d.server.ServeStdio(ctx, in, out)
}

// Probe says what isolation is in force, by trying. It waits for the sandbox to
// be ready.
func (d *Daemon) Probe(ctx context.Context) sandbox.Report { return d.backend.Probe(ctx) }

// sandbox names the backend and waits until it is known whether it works.
func (d *Daemon) sandbox(ctx context.Context) (string, error) {
	_, err := d.backend.wait(ctx)
	return "process", err
}

// Stats collects what there is of one tenant, its limits and the sandbox.
func (d *Daemon) Stats(ctx context.Context, home *home.Home) (mcpserver.Stats, error) {
	return d.server.Stats(ctx, home)
}

// Listing is what clients of a profile are told of tools.
func (d *Daemon) Listing(p mcpserver.Profile) []mcpserver.Listed { return d.server.Listing(p) }

// Close ends what runs, and everything that was started for it. It is
// idempotent and bounded in time.
func (d *Daemon) Close() error { return d.close() }

// grace is how long executions may go on that nobody ended before Close.
const grace = time.Second

func (d *Daemon) shut() error {
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
	if d.self != nil { // after all that it runs
		errs = append(errs, d.self.Close())
	}
	if d.Audit != nil { // after all that writes to it
		errs = append(errs, d.Audit.Close())
	}
	d.Telemetry.Close()
	if d.logFile != nil {
		errs = append(errs, d.logFile.Close())
	}
	return errors.Join(errs...)
}

// openLog makes the logger. Stdout is never a place for it: over stdio it
// belongs to the protocol.
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

// openLogFile opens the file of the log and makes its directory. A project's lies in
// its directory, whatever links there are.
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
