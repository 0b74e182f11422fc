package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// serversConfig of openServers. All fields are required, but Embeddings.
type serversConfig struct {
	Config
	Failed      func(server string, err error) // called when a server cannot be listed
	Quarantined func(server, tool string)      // called when a listing quarantines a tool
	Data        *data
	Modules     *modules
	Embeddings  catalog.Embedder
	Log         *logger
}

// openServers opens the catalog. It connects to no server.
func openServers(c serversConfig) (*servers, error) {
	v := &servers{
		tenants:        func() *config.Tenants { return c.Data.now().Tenants },
		failed:         c.Failed,
		quarantined:    c.Quarantined,
		audit:          c.Data.audit,
		log:            c.Log.Logger,
		failures:       failures{c.Data.sub("failures"), c.Log.Logger},
		listing:        map[string]*listing{},
		unlisted:       map[string]bool{},
		catalogModules: catalogModules{modules: c.Modules, written: make(chan struct{})},
	}
	v.lookup.Store(&c.Lookup)
	ctx, cancel := context.WithCancel(context.Background())
	v.cancel, v.spawn = cancel, func(f func(context.Context)) { v.work.Go(func() { f(ctx) }) }
	set, err := newServerSet(&c.Config.Config)
	if v.now.Store(&set); err == nil {
		if v.Catalog, err = openCatalog(c, set); err == nil {
			err = newUpstream(c, v)
		}
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return v, nil
}

// serverSet is the part of a configuration that the servers are made of.
type serverSet struct {
	configured []catalog.Configured
	static     []catalog.Static
	upstream   []upstream.Server
	disabled   []string
}

func newServerSet(c *config.Config) (s serverSet, err error) {
	s.disabled = c.Disabled
	for i, one := range c.Servers {
		if slices.ContainsFunc(c.Servers[:i], func(o config.Server) bool { return o.Name == one.Name }) {
			return s, fault.New(fault.Invalid, "there are two servers named %q, of which servers and catalog may have one each: give one "+
				"of them another name", one.Name)
		}
		s.configured = append(s.configured, catalogServer(one))
		s.upstream = append(s.upstream, upstreamServer(one, c.Lookup))
	}
	for _, path := range c.Catalogs {
		static, err := catalog.ReadStatic(path)
		if err != nil {
			return s, err
		}
		s.static = append(s.static, static)
	}
	return s, nil
}

// catalogServer returns a server as the catalog needs it.
func catalogServer(s config.Server) catalog.Configured {
	return catalog.Configured{
		Name:     s.Name,
		Category: s.Category,
		Identity: identity(s),
		Review:   s.Review,
		Trusted:  s.Trusted || s.API != nil && !s.Project,
		Local:    s.Local != nil || s.API != nil && s.API.Own,
	}
}

// ListedTools returns the trusted definitions of a server from its last listing on disk. It
// creates nothing.
func ListedTools(dir string, s config.Server) ([]tool.Definition, error) {
	return catalog.ListedTools(dataDir(dir).sub(catalogDir), catalogServer(s))
}

// catalogDir is the directory of the catalog in the data directory.
const catalogDir = "catalog"

func upstreamServer(s config.Server, lookup func(string) (string, bool)) upstream.Server {
	return upstream.Server{
		Name: s.Name, Kind: kindOf(s), Identity: identity(s), Revision: revision(s, lookup),
		Timeout: s.Timeout, ProgressTimeout: s.ProgressTimeout, StartTimeout: s.StartTimeout, Idle: s.Idle, Concurrency: s.Concurrency,
	}
}

// kindOf returns what a server is.
func kindOf(s config.Server) upstream.Kind {
	switch {
	case s.API != nil:
		return s.API.Kind
	case s.Local != nil:
		return upstream.InProcess{Local: s.Local}
	case s.URL != "":
		return upstream.Remote{URL: s.URL, Headers: s.Headers, Transport: s.Transport, Authorization: s.Authorization}
	}
	return upstream.Program{Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir}
}

func openCatalog(c serversConfig, now serverSet) (*catalog.Catalog, error) {
	return catalog.Open(catalog.Config{
		Servers: now.configured, Static: now.static, Disabled: now.disabled,
		Dir: c.Data.sub(catalogDir), Derived: c.Data.sub("derived"), Embeddings: c.Embeddings, Log: c.Log.Logger,
		Allow: c.Data.allow,
	})
}

func newUpstream(c serversConfig, v *servers) error {
	secrets := &secret.References{Lookup: func(name string) (string, bool) { return lookupIn(*v.lookup.Load(), name) }}
	cfg := upstream.Config{
		Version:       c.Version,
		Resolve:       secrets.Resolve,
		ToolsChanged:  v.changed,
		DocumentCache: c.Data.sub("documents"),
		Spool:         c.Data.sub("spool"),
		Started:       v.failures.note,
		Logins:        c.Data.logins(),
		Redact:        c.Log.redact,
		Log:           c.Log.Logger,
	}
	legacy := map[string]bool{}
	for _, s := range catalog.OverviewFor(v.Catalog, catalog.Viewer{}).Servers {
		legacy[s.Name] = s.Legacy
	}
	for _, s := range v.now.Load().upstream {
		s.Legacy = legacy[s.Name]
		cfg.Servers = append(cfg.Servers, s)
	}
	var err error
	if v.Set, err = upstream.New(cfg); err != nil {
		return err
	}
	none, err := upstream.New(upstream.Config{})
	if err != nil {
		return err
	}
	own := cfg
	own.Logins, own.ToolsChanged, own.Started = nil, nil, nil
	v.own = &ownServers{
		shared:      v.Set,
		none:        none,
		logins:      c.Data.homes.Logins,
		sets:        map[ownKey]*ownSet{},
		server:      func(name string) (upstream.Server, bool) { return v.now.Load().server(name) },
		resolve:     secrets.Resolve,
		config:      own,
		log:         c.Log.Logger,
		credentials: func(id tenant.ID, server string) map[string]string { return c.Data.settings(id).Credentials[server] },
		settings:    c.Data.settings,
		lookup:      func(name string) (string, bool) { return lookupIn(*v.lookup.Load(), name) },
	}
	return nil
}

// server returns a server by its name.
func (s *serverSet) server(name string) (upstream.Server, bool) {
	i := slices.IndexFunc(s.upstream, func(s upstream.Server) bool { return s.Name == name })
	if i < 0 {
		return upstream.Server{}, false
	}
	return s.upstream[i], true
}

// identity returns the command or address of a server. Trust in its definitions is bound
// to it.
func identity(s config.Server) string {
	is := []any{s.Command, s.Args, s.Dir, s.URL, s.Transport}
	if s.API != nil { // its address, not the content of its document
		is = s.API.Identity
	}
	if s.Local != nil { // each program has its own
		is = append(is, "local", program())
	}
	if s.Review { // without it, definitions were trusted unseen
		is = append(is, "review")
	}
	b, err := json.Marshal(is)
	if err != nil { // strings only
		panic(err)
	}
	return string(b)
}

// program returns the import path of the program that this process runs.
func program() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.Path
}

// revision changes with the values of the variables that a server refers to.
func revision(s config.Server, lookup func(string) (string, bool)) string {
	var api upstream.Kind
	if s.API != nil {
		api = s.API.Kind
	}
	text, err := json.Marshal([]any{s.Command, s.Args, s.Env, s.URL, s.Headers, api, s.Authorization})
	if err != nil { // strings only
		panic(err)
	}
	h := sha256.New()
	for _, m := range variable.FindAllSubmatch(text, -1) {
		value, ok := lookupIn(lookup, string(m[1]))
		fmt.Fprintf(h, "%q %v\n", value, ok)
	}
	return hex.EncodeToString(h.Sum(nil))
}

var variable = regexp.MustCompile(`\$\{([^:}"]+)\}`)

func lookupIn(lookup func(string) (string, bool), name string) (string, bool) {
	if lookup == nil {
		return "", false
	}
	return lookup(name)
}
