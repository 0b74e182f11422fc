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

// servers keeps the catalog and the generated modules as the servers say. A
// server that was listed once is not started for it again until it is used, asked
// to be, or says that its list changed; at the first call over a connection it is
// asked again, beside the call.
type servers struct {
	Catalog *catalog.Catalog
	Set     *upstream.Set
	modules *codegen.Dir
	audit   *audit.Log
	hand    []codegen.Server // modules that somebody wrote by hand
	log     *slog.Logger

	life context.Context // ends with close
	end  context.CancelFunc
	work sync.WaitGroup

	writing sync.RWMutex // held while the catalog changes and the modules with it

	mu      sync.Mutex
	listing map[string]*listing // by server, while it is asked
	said    sync.Map            // paths of hidden modules that were warned of
	written chan struct{}       // closed when the modules are there for the first time
}

// listing is one question to a server, for all who wait for it.
type listing struct {
	done   chan struct{}
	change catalog.Change
	err    error
}

// modulesKey names the modules of exactly these servers, and those written by
// hand: everybody who has them shares the directory.
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

// identity is what is run or called: trust in definitions is trust in that.
func identity(s config.Server) string {
	is := []any{s.Command, s.Args, s.Dir, s.URL, s.Transport}
	if s.OpenAPI != nil { // what is called, and not what its document says: that is what is trusted
		is = []any{s.OpenAPI.Document, s.OpenAPI.URL, s.OpenAPI.Server, s.OpenAPI.Variables, s.OpenAPI.Include, s.OpenAPI.Exclude}
	}
	b, err := json.Marshal(is)
	if err != nil { // texts only
		panic(err)
	}
	return string(b)
}

func (d *Daemon) openServers() (err error) {
	v := &servers{audit: d.Audit, log: d.log, hand: d.hand, listing: map[string]*listing{}, written: make(chan struct{})}
	v.life, v.end = context.WithCancel(context.Background())
	cfg := catalog.Config{Dir: d.dir("catalog"), Meaning: d.Meaning, Log: d.log}
	secrets := &secret.References{Lookup: d.cfg.Lookup}
	up := upstream.Config{Version: d.cfg.Version, Resolve: secrets.Resolve, Changed: v.changed, Documents: d.dir("documents"),
		Logins: safe(d.cfg.DataDir), Redact: d.redact, Log: d.log}
	for _, s := range d.cfg.Servers {
		cfg.Servers = append(cfg.Servers, catalog.Configured{Name: s.Name, Category: s.Category, Identity: identity(s), Trusted: s.Trusted || s.OpenAPI != nil && !s.Project})
		up.Servers = append(up.Servers, upstream.Server{
			Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers, OpenAPI: s.OpenAPI,
			Client: client(s.OAuth), Machine: s.OAuth.Machine,
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

// start writes the modules of what is known, and asks the servers that never
// were listed. Nobody waits for it but code that names servers.
func (v *servers) start() {
	v.work.Go(func() {
		v.writing.Lock()
		v.write()
		v.writing.Unlock()
		close(v.written)
		v.Catalog.Now().Search("", "", 1) // the first search would wait for the index
	})
	for _, s := range v.Catalog.Now().Servers {
		if s.Connected && s.Listed.IsZero() {
			v.work.Go(func() { v.insist(s.Name) })
		}
	}
}

// Waits between two questions to a server that gives no answer.
const (
	firstWait = 5 * time.Second
	lastWait  = 5 * time.Minute
)

// insist asks a server until it answers.
func (v *servers) insist(name string) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		_, err := v.List(v.life, name)
		if err == nil || v.life.Err() != nil {
			return
		}
		v.log.Warn("a server could not be asked for its tools", "server", name, "error", err, "again_in", wait)
		select {
		case <-time.After(wait):
		case <-v.life.Done():
			return
		}
	}
}

func (v *servers) changed(name string) {
	if _, err := v.List(v.life, name); err != nil && v.life.Err() == nil {
		v.log.Warn("a server may have other tools now, and could not be asked", "server", name, "error", err)
	}
}

// List asks a server for its tools, and keeps what it says. Those who ask at the
// same time get one answer.
func (v *servers) List(ctx context.Context, name string) (catalog.Change, error) {
	v.mu.Lock()
	l := v.listing[name]
	if l == nil {
		l = &listing{done: make(chan struct{})}
		v.listing[name] = l
		v.work.Go(func() { v.ask(name, l) })
	}
	v.mu.Unlock()
	select {
	case <-l.done:
		return l.change, l.err
	case <-ctx.Done():
		return catalog.Change{}, context.Cause(ctx)
	}
}

func (v *servers) ask(name string, l *listing) {
	defer close(l.done)
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.listing, name)
	}()
	said, err := v.Set.List(v.life, name)
	if err == nil {
		l.change, err = v.keep(name, catalog.Listing{
			Title: said.Info.Title, Version: said.Info.Version, Instructions: said.Info.Instructions,
			Resources: said.Info.Resources, Prompts: said.Info.Prompts, Legacy: said.Info.Legacy, Tools: said.Tools,
		})
	}
	if l.err = err; err != nil {
		return
	}
	for _, t := range l.change.Held {
		v.log.Warn("a tool changed its definition and cannot be called until that is accepted", "server", name, "tool", t,
			"accept", fmt.Sprintf("sandpiper tools accept %s %s", name, t))
	}
}

// keep takes in what a server said, and writes its modules before Know can tell
// that it has said anything.
func (v *servers) keep(name string, said catalog.Listing) (catalog.Change, error) {
	v.writing.Lock()
	defer v.writing.Unlock()
	change, err := v.Catalog.Put(v.life, name, said)
	if err == nil && change.Modules {
		v.write()
	}
	return change, err
}

// write makes the generated modules what the catalog says. The caller holds
// writing, so that no older state is written after a newer one.
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
				t.Output = codegen.Text
			}
			if t.Held == nil {
				g.Tools = append(g.Tools, t.Definition)
			}
		}
		all = append(all, g)
	}
	all = v.withHand(all)
	if _, err := v.modules.Sync(v.life, all); err != nil && v.life.Err() == nil {
		v.log.Error("write the generated modules", "error", err)
	}
}

// texts has the module of a tool document that it answers with text.
func (v *servers) texts(ref tool.Ref) {
	if t, ok := v.Catalog.Now().Find(ref); !ok || t.Text {
		return
	}
	v.work.Go(func() {
		v.writing.Lock()
		defer v.writing.Unlock()
		if err := v.Catalog.SetText(context.WithoutCancel(v.life), ref); err != nil {
			v.log.Warn("what a tool answers cannot be noted", "tool", ref.String(), "error", err)
			return
		}
		v.write()
	})
}

// withHand adds the modules that somebody wrote by hand: to the servers that have
// their names, or as packages of their own.
func (v *servers) withHand(all []codegen.Server) []codegen.Server {
	for _, h := range v.hand {
		i := slices.IndexFunc(all, func(s codegen.Server) bool { return s.Module == h.Module })
		if i < 0 {
			all = append(all, h)
			continue
		}
		all[i].Files = h.Files
		for _, path := range all[i].Hidden() {
			if _, known := v.said.LoadOrStore(path, true); !known {
				v.log.Warn("a module written by hand is hidden by the one generated for a connected server", "module", "servers/"+path)
			}
		}
	}
	return all
}

// byHand names what somebody wrote by hand, for the check before code runs.
func (v *servers) byHand() map[string]map[string]bool {
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

// Know waits until the modules of some servers can be imported; it asks those that
// never were listed, and returns why one cannot be.
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

// Accept trusts the new definitions of held tools.
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

// Login has a person log in to a server.
func (v *servers) Login(ctx context.Context, server string, p upstream.Person) error {
	if err := v.Set.Login(ctx, server, p); err != nil {
		if v.known(server) { // else it is no name of a server
			v.audit.Later(audit.Line{Kind: audit.Login, Server: server, Outcome: "login_failed"})
		}
		return err
	}
	return v.record(ctx, audit.Line{Kind: audit.Login, Server: server, Outcome: "logged_in"}, "the login is kept")
}

// Logout forgets a login. unrevoked says why its tokens go on until they end.
func (v *servers) Logout(ctx context.Context, server string) (unrevoked, err error) {
	if unrevoked, err = v.Set.Logout(ctx, server); err != nil {
		if v.known(server) {
			v.audit.Later(audit.Line{Kind: audit.Login, Server: server, Outcome: "logout_failed"})
		}
		return unrevoked, err
	}
	return unrevoked, v.record(ctx, audit.Line{Kind: audit.Login, Server: server, Outcome: "logged_out"}, "the login is forgotten")
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
