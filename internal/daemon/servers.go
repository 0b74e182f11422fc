package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// servers keeps the catalog and the generated modules up to date. A server that was
// listed once is listed again when requested, when it reports a changed list, and
// concurrently with the first call over a new connection.
type servers struct {
	Catalog *catalog.Catalog
	Set     *upstream.Set
	modules *codegen.Dir
	audit   *audit.Log
	hand    []codegen.Server // handwritten modules
	log     *slog.Logger

	ctx  context.Context // ends with close
	end  context.CancelFunc
	work sync.WaitGroup

	writing sync.RWMutex // held while catalog and modules change together

	mu      sync.Mutex
	listing map[string]*listing // by server, running requests
	warned  sync.Map            // paths of hidden modules that were logged
	written chan struct{}       // closed when the modules were first written
}

// listing is one tools/list request, shared by all its callers.
type listing struct {
	done   chan struct{}
	change catalog.Change
	err    error
}

// modulesKey identifies the modules of these servers and handwritten modules. All
// daemons with the same key share one directory.
func modulesKey(all []config.Server, hand []codegen.Server) string {
	h := sha256.New()
	for _, s := range hand {
		for _, f := range s.Files {
			fmt.Fprintf(h, "%q %q\n", f.Path, f.Data)
		}
	}
	for _, s := range all {
		fmt.Fprintf(h, "%q %s\n", s.Name, identity(s))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// identity returns the command or address of a server. Trust in its definitions is bound
// to it.
func identity(s config.Server) string {
	is := []any{s.Command, s.Args, s.Dir, s.URL, s.Transport}
	if s.OpenAPI != nil { // the address of the API, not the content of its document
		is = []any{s.OpenAPI.Document, s.OpenAPI.URL, s.OpenAPI.Server, s.OpenAPI.Variables, s.OpenAPI.Include, s.OpenAPI.Exclude}
	}
	b, err := json.Marshal(is)
	if err != nil { // strings only
		panic(err)
	}
	return string(b)
}

func (d *Daemon) openServers() (err error) {
	v := &servers{audit: d.Audit, log: d.log, hand: d.hand, listing: map[string]*listing{}, written: make(chan struct{})}
	v.ctx, v.end = context.WithCancel(context.Background())
	cfg := catalog.Config{Dir: d.dir("catalog"), Embeddings: d.Meaning, Log: d.log}
	secrets := &secret.References{Lookup: d.cfg.Lookup}
	up := upstream.Config{Version: d.cfg.Version, Resolve: secrets.Resolve, ToolsChanged: v.changed, DocumentCache: d.dir("documents"),
		Logins: safe(d.cfg.DataDir), Redact: d.redact, Log: d.log}
	for _, s := range d.cfg.Servers {
		cfg.Servers = append(cfg.Servers, catalog.Configured{Name: s.Name, Category: s.Category, Identity: identity(s), Trusted: s.Trusted || s.OpenAPI != nil && !s.Project})
		up.Servers = append(up.Servers, upstream.Server{
			Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers, OpenAPI: s.OpenAPI,
			Client: client(s.OAuth), ClientCredentials: s.OAuth.Machine,
			Transport: strings.TrimPrefix(s.Transport, "stdio"), Timeout: s.Timeout, StartTimeout: s.StartTimeout, Idle: s.Idle, Concurrency: s.Concurrency,
		})
	}
	for _, path := range d.cfg.Catalogs {
		static, err := catalog.ReadStatic(path)
		if err != nil {
			return err
		}
		cfg.Static = append(cfg.Static, static)
	}
	if v.Catalog, err = catalog.Open(cfg); err != nil {
		return err
	}
	for i, s := range up.Servers {
		known, _ := v.Catalog.Now().Server(s.Name)
		up.Servers[i].Legacy = known.Legacy
	}
	if v.Set, err = upstream.New(up); err != nil {
		return err
	}
	v.modules = codegen.NewDir(d.Tenants.Modules())
	d.Servers = v
	return nil
}

func client(o config.OAuth) upstream.Client {
	return upstream.Client{ID: o.ClientID, Secret: o.ClientSecret, Key: o.PrivateKey, Document: o.Document, Issuer: o.Issuer, Redirect: o.Redirect, Scopes: o.Scopes}
}

// start writes the modules of known tools and lists the servers that were never listed.
// Only code that names servers waits for it.
func (v *servers) start() {
	v.work.Go(func() {
		v.writing.Lock()
		v.write()
		v.writing.Unlock()
		close(v.written)
		v.Catalog.Now().Search("", "", 1) // builds the search index
	})
	for _, s := range v.Catalog.Now().Servers {
		if s.Connected && s.Listed.IsZero() {
			v.work.Go(func() { v.listUntilDone(s.Name) })
		}
	}
}

// Waits between attempts to list a server.
const (
	firstWait = 5 * time.Second
	lastWait  = 5 * time.Minute
)

// listUntilDone lists a server, and retries until it answers.
func (v *servers) listUntilDone(name string) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		_, err := v.List(v.ctx, name)
		if err == nil || v.ctx.Err() != nil {
			return
		}
		v.log.Warn("listing the tools of a server failed", "server", name, "error", err, "retry_in", wait)
		select {
		case <-time.After(wait):
		case <-v.ctx.Done():
			return
		}
	}
}

func (v *servers) changed(name string) {
	if _, err := v.List(v.ctx, name); err != nil && v.ctx.Err() == nil {
		v.log.Warn("listing the changed tools of a server failed", "server", name, "error", err)
	}
}

// List lists the tools of a server and stores them in the catalog. Concurrent calls share
// one request.
func (v *servers) List(ctx context.Context, name string) (catalog.Change, error) {
	v.mu.Lock()
	l := v.listing[name]
	if l == nil {
		l = &listing{done: make(chan struct{})}
		v.listing[name] = l
		v.work.Go(func() { v.request(name, l) })
	}
	v.mu.Unlock()
	select {
	case <-l.done:
		return l.change, l.err
	case <-ctx.Done():
		return catalog.Change{}, context.Cause(ctx)
	}
}

func (v *servers) request(name string, l *listing) {
	defer close(l.done)
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.listing, name)
	}()
	got, err := v.Set.List(v.ctx, name)
	if err == nil {
		l.change, err = v.store(name, catalog.Listing{
			Title: got.Info.Title, Version: got.Info.Version, Instructions: got.Info.Instructions,
			Resources: got.Info.Resources, Prompts: got.Info.Prompts, Legacy: got.Info.Legacy, Tools: got.Tools,
		})
	}
	if l.err = err; err != nil {
		return
	}
	for _, t := range l.change.Quarantined {
		v.log.Warn("a tool is quarantined: its definition has changed and must be accepted", "server", name, "tool", t,
			"accept", fmt.Sprintf("sandpiper tools accept %s %s", name, t))
	}
}

// store stores a listing and writes the modules, before Know can return.
func (v *servers) store(name string, listing catalog.Listing) (catalog.Change, error) {
	v.writing.Lock()
	defer v.writing.Unlock()
	change, err := v.Catalog.Put(v.ctx, name, listing)
	if err == nil && change.Modules {
		v.write()
	}
	return change, err
}

// write generates the modules from the catalog. The caller holds writing, so that an
// older state cannot overwrite a newer one.
func (v *servers) write() {
	now := v.Catalog.Now()
	var all []codegen.Server
	for _, s := range now.Servers {
		if !s.Connected {
			continue
		}
		g := codegen.Server{Name: s.Name, Module: s.Module, Title: s.Title, Description: s.Instructions, Resources: s.Resources, Prompts: s.Prompts}
		for _, t := range now.Of(s.Name) {
			if t.Text && t.Output == nil {
				t.Output = codegen.TextSchema
			}
			if t.Quarantined == nil {
				g.Tools = append(g.Tools, t.Definition)
			}
		}
		all = append(all, g)
	}
	all = v.addHandwritten(all)
	if _, err := v.modules.Sync(v.ctx, all); err != nil && v.ctx.Err() == nil {
		v.log.Error("write the generated modules", "error", err)
	}
}

// markText records in the catalog and the module that a tool returns text.
func (v *servers) markText(ref tool.Ref) {
	if t, ok := v.Catalog.Now().Find(ref); !ok || t.Text {
		return
	}
	v.work.Go(func() {
		v.writing.Lock()
		defer v.writing.Unlock()
		if err := v.Catalog.SetText(context.WithoutCancel(v.ctx), ref); err != nil {
			v.log.Warn("recording the result type of a tool failed", "tool", ref.String(), "error", err)
			return
		}
		v.write()
	})
}

// addHandwritten adds the handwritten modules: to the server of the same name, or as
// separate packages.
func (v *servers) addHandwritten(all []codegen.Server) []codegen.Server {
	for _, h := range v.hand {
		i := slices.IndexFunc(all, func(s codegen.Server) bool { return s.Module == h.Module })
		if i < 0 {
			all = append(all, h)
			continue
		}
		all[i].Files = h.Files
		for _, path := range all[i].Shadowed() {
			if _, known := v.warned.LoadOrStore(path, true); !known {
				v.log.Warn("a handwritten module is hidden by the module of a connected server", "module", "servers/"+path)
			}
		}
	}
	return all
}

// handwritten returns the names of handwritten modules, for preflight.
func (v *servers) handwritten() map[string]map[string]bool {
	names := map[string]map[string]bool{}
	for _, h := range v.hand {
		s, known := v.Catalog.Now().Server(h.Module)
		names[h.Module] = map[string]bool{"": !known || !s.Connected}
		for _, f := range h.Files {
			_, name, _ := strings.Cut(strings.TrimSuffix(f.Path, ".py"), "/")
			names[h.Module][name] = true
		}
	}
	return names
}

// Know waits until the modules of some servers can be imported. It lists servers that
// were never listed, and returns an error for each that fails.
func (v *servers) Know(ctx context.Context, names ...string) map[string]error {
	select {
	case <-v.written:
	case <-ctx.Done():
	}
	v.writing.RLock()
	now := v.Catalog.Now()
	v.writing.RUnlock()
	var all sync.WaitGroup
	var mu sync.Mutex
	why := map[string]error{}
	for _, name := range names {
		s, ok := now.Server(name)
		if !ok || !s.Connected || !s.Listed.IsZero() {
			continue
		}
		all.Go(func() {
			if _, err := v.List(ctx, s.Name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				why[s.Name] = err
			}
		})
	}
	all.Wait()
	return why
}

// Accept trusts the new definitions of quarantined tools.
func (v *servers) Accept(ctx context.Context, server string, tools ...string) ([]string, error) {
	v.writing.Lock()
	accepted, err := v.Catalog.Accept(ctx, server, tools...)
	if err == nil {
		v.write()
	}
	v.writing.Unlock()
	if err != nil {
		return accepted, err
	}
	for _, name := range accepted {
		line := audit.Line{Kind: audit.Configuration, Server: server, Tool: name, Outcome: "accepted"}
		if err := v.record(ctx, line, fmt.Sprintf("%s.%s is accepted", server, name)); err != nil {
			return accepted, err
		}
	}
	return accepted, nil
}

// Login logs a person in to a server.
func (v *servers) Login(ctx context.Context, server string, p upstream.Interaction) error {
	if err := v.Set.Login(ctx, server, p); err != nil {
		if v.known(server) { // an unknown name is not recorded
			v.audit.AppendLater(audit.Line{Kind: audit.Login, Server: server, Outcome: "login_failed"})
		}
		return err
	}
	return v.record(ctx, audit.Line{Kind: audit.Login, Server: server, Outcome: "logged_in"}, "the login is stored")
}

// Logout deletes a login. unrevoked is the reason why its tokens stay valid until they
// expire, if they do.
func (v *servers) Logout(ctx context.Context, server string) (unrevoked, err error) {
	if unrevoked, err = v.Set.Logout(ctx, server); err != nil {
		if v.known(server) {
			v.audit.AppendLater(audit.Line{Kind: audit.Login, Server: server, Outcome: "logout_failed"})
		}
		return unrevoked, err
	}
	return unrevoked, v.record(ctx, audit.Line{Kind: audit.Login, Server: server, Outcome: "logged_out"}, "the login is deleted")
}

func (v *servers) known(server string) bool {
	_, ok := v.Catalog.Now().Server(server)
	return ok
}

func (v *servers) record(ctx context.Context, line audit.Line, done string) error {
	return record(ctx, v.audit, line, done)
}

func (v *servers) close() {
	v.end()
	v.Set.Close()
	v.work.Wait()
}
