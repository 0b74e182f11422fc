// Package sandpiper runs Python code of agents in a sandbox, with the tools of MCP servers as
// modules, from a Go program.
//
// [Open] runs Sandpiper in this process, without the program sandpiper; [Dial] connects to a
// server over HTTP. Both return a [Client]:
//
//	c, err := sandpiper.Open(ctx, sandpiper.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	r, err := c.Execute(ctx, "sum(range(10))")
//	if err != nil {
//		return err
//	}
//	fmt.Println(string(r.Value)) // 45
//
// A Config adds to Sandpiper in Go: MCP servers whose tools code calls, guardrails, hooks, and a
// generator of programs for tasks.
//
// A Client is treated as an MCP client: its results pass policy, the audit log and redaction, and
// equal those that a model would see. With the default privacy settings, personal
// data in results, output, errors and files are tokens such as [EMAIL_…]. Tools, hooks and
// guardrails get the values.
//
// Code runs on Linux only. On other systems Open, files, skills and the search of tools work, and
// Execute returns the error that the command sandpiper doctor reports.
//
// The sandbox starts this program again, as its helper. A function init of this package takes over
// before main is called; init functions of other packages may run before it, with
// "sandpiper-sandbox-keeper" as os.Args[0] and an empty environment.
//
// All types are safe for concurrent use.
package sandpiper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Config configures Sandpiper in this process. Its zero value is the configuration of the command
// sandpiper: the user's own, and the trusted files in the working directory. Variables named
// SANDPIPER_… apply in any case.
type Config struct {
	// File is the path of a sandpiper.yaml, which replaces these files; "" means none.
	File string
	// YAML is the text of a sandpiper.yaml, instead of File; "" means none. Paths in it are relative to
	// the working directory.
	YAML string
	// DataDir is the directory of all data; "" means that of the configuration. Several processes may
	// share one.
	DataDir string
	// Tenant owns the data that the Client uses; "" means "local". See Client.ForTenant.
	Tenant string

	// Servers are MCP servers in this process by name, in addition to the configured ones. Code imports
	// the tools with "from servers.NAME import TOOL". Their annotations and definitions are trusted. A
	// handler that panics is a failed call.
	Servers map[string]*mcp.Server
	// Guardrails check code and arguments after those of the configuration.
	Guardrails []Guardrail
	// Hooks run after those of the configuration.
	Hooks []Hook
	// Generator writes the programs of tasks; nil means the configured model, or rules without one.
	Generator Generator

	// Log receives the log, unless the configuration names a file; nil means discard.
	Log *slog.Logger
}

// ErrClosed is returned by the methods of a closed Client.
var ErrClosed = errors.New("sandpiper: the client is closed")

// Client is a connection to Sandpiper, as one tenant.
type Client struct {
	connection
	tenant tenant.ID     // zero after Dial
	stop   func()        // ends the connection to embedded; nil after Dial
	served chan struct{} // closed after stop

	closing sync.Once
	err     error // of Close
}

// embedded is Sandpiper in this process.
type embedded struct {
	daemon *daemon.Daemon
	owner  *Client // whose Close closes everything

	mu     sync.Mutex
	others []*Client // of ForTenant
}

// Open starts Sandpiper in this process. The end of ctx does not stop it; Close does. The first
// sandbox starts in the background.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	id := tenant.Local
	if cfg.Tenant != "" {
		var err error
		if id, err = tenant.Parse(cfg.Tenant); err != nil {
			return nil, failed("open", err)
		}
	}
	load := cfg.loader()
	loaded, err := load()
	if err != nil {
		return nil, failed("open", err)
	}
	d, err := daemon.New(daemon.Config{
		Features: features(),
		Config:   *loaded, Load: load, Version: version(), Tenant: id, Handler: cfg.Log.Handler(),
	})
	if err != nil {
		return nil, failed("open", err)
	}
	e := &embedded{daemon: d}
	e.owner, err = e.connect(ctx, id)
	if err == nil {
		err = e.listServers(ctx, cfg)
	}
	if err != nil {
		return nil, errors.Join(failed("open", err), d.Close())
	}
	return e.owner, nil
}

// features returns the features of a daemon.
func features() []daemon.Feature { return feature.OfDaemon(all.Features()) }

// loader returns the function that reads the configuration, and adds what is given in Go.
func (c Config) loader() func() (*config.Config, error) {
	extend := c.extension()
	return func() (*config.Config, error) {
		src := config.Sources{Features: daemon.Sections(features()), File: c.File, Text: c.YAML,
			Flags: map[string]string{"profile": "full"}}
		if c.File != "" && c.YAML != "" {
			return nil, errors.New("Config has File and YAML; remove one")
		}
		if c.DataDir != "" {
			src.Flags["data_dir"] = c.DataDir
		}
		loaded, err := daemon.Load(src)
		if err != nil {
			return nil, err
		}
		if len(loaded.Untrusted) > 0 {
			loaded.Warnings = append(loaded.Warnings, "not read, because it is not trusted: "+strings.Join(loaded.Untrusted,
				", ")+" in the working directory; sandpiper trust shows its effects")
		}
		return loaded, extend(loaded)
	}
}

// connect returns a client in this process.
func (e *embedded) connect(ctx context.Context, id tenant.ID) (*Client, error) {
	requests, send := io.Pipe()
	receive, answers := io.Pipe()
	serving, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = e.daemon.ServeTenant(serving, id, requests, answers) // the client sees the end of the connection
		answers.Close()
		requests.Close()
	}()
	c, err := connect(ctx, &mcp.IOTransport{Reader: receive, Writer: send, MaxLineLength: -1})
	if err != nil {
		stop()
		<-served
		return nil, err
	}
	c.embedded, c.tenant, c.stop, c.served = e, id, stop, served
	return c, nil
}

// Dial connects to a server over streamable HTTP, such as http://127.0.0.1:8765/mcp. The token
// identifies the tenant; "" sends none. The server's profile decides which methods work: the
// profile full has all.
func Dial(ctx context.Context, url, token string) (*Client, error) {
	c, err := connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, MaxEventSize: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{
			Transport:     bearer(token),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("sandpiper: dial %s: %w", url, err)
	}
	return c, nil
}

// bearer is a token that is sent with each request.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// ForTenant returns a client of the same Sandpiper as another tenant, whose first request creates
// its data. Closing c closes it too. It fails after Dial, where the token identifies the tenant.
func (c *Client) ForTenant(ctx context.Context, id string) (*Client, error) {
	if c.embedded == nil {
		return nil, errors.New("sandpiper: ForTenant needs a client of Open; Dial has the tenant of its token")
	}
	parsed, err := tenant.Parse(id)
	if err != nil {
		return nil, failed("tenant", err)
	}
	e := c.embedded
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.isClosed() {
		return nil, ErrClosed
	}
	other, err := e.connect(ctx, parsed)
	if err != nil {
		return nil, failed("tenant", err)
	}
	e.others = append(slices.DeleteFunc(e.others, (*Client).isClosed), other)
	return other, nil
}

// Close ends the connection and, after Open, Sandpiper: running code is cancelled after two
// seconds. It may be called again.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.closed.Store(true)
		if c.embedded == nil {
			c.err = c.session.Close()
			return
		}
		if e := c.embedded; e.owner == c {
			defer func() { c.err = e.daemon.Close() }()
			defer e.closeOthers()
		}
		c.stop()
		<-c.served
		_ = c.session.Close() // its connection has ended
	})
	return c.err
}

func (e *embedded) closeOthers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range e.others {
		all.Go(func() { _ = c.Close() })
	}
	all.Wait()
}

// version returns the version of this module in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/sandpiper-mcp/sandpiper" && m.Version != "" {
			return m.Version
		}
	}
	return "devel"
}
