package daemon

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// serversConfig of openServers. All fields are required, but Embeddings.
type serversConfig struct {
	Config
	Data       *data
	Modules    *modules
	Embeddings *embedding.Index
	Log        *logger
}

// openServers opens the catalog. It connects to no server.
func openServers(c serversConfig) (*servers, error) {
	v := &servers{audit: c.Data.audit, log: c.Log.Logger, listing: map[string]*listing{}, written: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	v.cancel, v.spawn = cancel, func(f func(context.Context)) { v.work.Go(func() { f(ctx) }) }
	var err error
	if v.Catalog, err = openCatalog(c); err == nil {
		v.Set, err = newUpstream(c, v)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	v.modules = c.Modules
	return v, nil
}

func openCatalog(c serversConfig) (*catalog.Catalog, error) {
	cfg := catalog.Config{
		Dir: c.Data.sub("catalog"), Embeddings: c.Embeddings, Log: c.Log.Logger,
		Allow: c.Data.allow,
	}
	for _, s := range c.Servers {
		cfg.Servers = append(cfg.Servers, catalog.Configured{Name: s.Name, Category: s.Category, Identity: identity(s), Trusted: s.Trusted || s.OpenAPI != nil && !s.Project})
	}
	for _, path := range c.Catalogs {
		static, err := catalog.ReadStatic(path)
		if err != nil {
			return nil, err
		}
		cfg.Static = append(cfg.Static, static)
	}
	return catalog.Open(cfg)
}

func newUpstream(c serversConfig, v *servers) (*upstream.Set, error) {
	secrets := &secret.References{Lookup: c.Lookup}
	cfg := upstream.Config{Version: c.Version, Resolve: secrets.Resolve, ToolsChanged: v.changed, DocumentCache: c.Data.sub("documents"), Spool: c.Data.sub("spool"),
		Logins: c.Data.logins(), Redact: c.Log.redact, Log: c.Log.Logger}
	for _, s := range c.Servers {
		known, _ := v.Catalog.Now().Server(s.Name)
		cfg.Servers = append(cfg.Servers, upstream.Server{
			Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers, OpenAPI: s.OpenAPI,
			Client: client(s.OAuth), ClientCredentials: s.OAuth.Machine, Legacy: known.Legacy,
			Transport: strings.TrimPrefix(s.Transport, "stdio"), Timeout: s.Timeout, StartTimeout: s.StartTimeout, Idle: s.Idle, Concurrency: s.Concurrency,
		})
	}
	return upstream.New(cfg)
}

func client(o config.OAuth) upstream.Client {
	return upstream.Client{ID: o.ClientID, Secret: o.ClientSecret, Key: o.PrivateKey, MetadataURL: o.Document, Issuer: o.Issuer, Redirect: o.Redirect, Scopes: o.Scopes}
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
