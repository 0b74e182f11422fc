// Package config reads what the operator wants, from a file, a .env beside it,
// the environment and flags, and turns it into one immutable Config with the
// rooms' own values.
//
// Each source becomes a list of settings: a key, a text, and where it stands.
// Sources are applied in order, later wins; every key is parsed by one row of
// one table, whatever source it comes from. A key that nobody knows is an error
// that names the nearest known one; a key whose feature is not built yet says
// so. Nothing is read from the process: Sources carries all of it. Not for
// concurrent use; a Config may be shared freely.
package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tenant"
)

// Config is what the operator wants.
type Config struct {
	Profile    string           // lean, standard, full or passthrough
	Backend    string           // auto or process
	Limits     execution.Limits // with its defaults in place
	Restricted bool             // code passes a check before it runs
	Workspace  Workspace
	Admit      admit.Config       // zero fields take the queue's defaults
	Sessions   execution.Sessions // living interpreters; zero fields take their defaults
	Packages   packages.Config    // that code may import; its Lock and Dir are always set
	Preload    []string           // modules that are imported before code comes
	DataDir    string             // absolute
	CacheDir   string             // absolute
	Log        Log
	HTTP       HTTP
	Servers    []Server // MCP servers and APIs, in the order of the file
	Catalogs   []string // files and directories of static tool catalogs, absolute
	ServersDir string   // modules written by hand, SERVER/TOOL.py; absolute, "" for none
	SkillsDir  string   // skills of the first users, taken into the local tenant's; absolute, "" for none
	Search     Search
	PII        PII
	Policy     policy.Config // on calls of tools; as it is written, and not checked
	Audit      audit.Keep
	Telemetry  telemetry.Config // without what the daemon knows
	// Sections are the parts of the configuration, each with a hash of all that it
	// says: whether one has changed can be told without keeping it.
	Sections   map[string]string
	Approvals  Approvals
	Guardrails Guardrails
	// Lookup says what ${NAME} in Servers and Search stands for: the environment, else .env.
	Lookup func(name string) (value string, ok bool)

	Files    []string // that were read, in order
	Warnings []string // sentences about what was understood but has no effect
}

// Log says what is logged and where to.
type Log struct {
	Level slog.Level
	File  string // absolute; "" means stderr
}

// Approvals says how a person is asked about calls.
type Approvals struct {
	Timeout time.Duration // how long a question is open; 0 means approval's default
}

// HTTP says how to serve over HTTP, if --http asks for that.
type HTTP struct {
	Tokens []Token // clients have to show one of them; none means that nobody is asked
	Events bool    // also the transport of 2024-11-05, at /sse

	Connections      int // network connections; 0 means httpserver's default, as for the next
	PerAddress       int // those of one address
	TokenConnections int // MCP connections of one token; 0 means wire's default, as for the next
	TokenRequests    int // open requests of one token
}

// Token is a secret and whose it is. It does not print itself.
type Token struct {
	Secret string
	Tenant tenant.ID
}

// String hides the secret.
func (t Token) String() string { return "token of " + t.Tenant.String() }

// GoString hides the secret.
func (t Token) GoString() string { return t.String() }

// Sources are where settings come from.
type Sources struct {
	Dir     string            // working directory, absolute; required
	File    string            // configuration file; "" means look for one
	Environ []string          // as os.Environ returns it
	Flags   map[string]string // key -> text, only those that were given
}

// Load reads all sources.
func Load(src Sources) (*Config, error) {
	env := environment(src.Environ)
	l := &loader{src: src, env: env, beside: map[string]string{}}
	if err := l.collect(); err != nil {
		return nil, err
	}
	d := draft{dirs: directories(env), env: env, given: make(map[string]setting)}
	d.Workspace = defaultWorkspace()
	for _, s := range l.settings {
		if err := d.apply(s); err != nil {
			return nil, err
		}
	}
	lookup := func(name string) (string, bool) {
		if v, ok := env[name]; ok {
			return v, true
		}
		v, ok := l.beside[name]
		return v, ok
	}
	if err := d.embeddingsFit(lookup); err != nil {
		return nil, err
	}
	d.variables(lookup, l.warn)
	c, err := d.finish()
	if err != nil {
		return nil, err
	}
	if c.ServersDir = l.servers; c.Restricted && c.ServersDir != "" {
		c.ServersDir = ""
		l.warn("SERVERS_DIR has no effect with sandbox.restricted: code could reach through those modules what it may not import")
	}
	c.SkillsDir = l.skills
	c.Packages.Lock = filepath.Join(l.dir, packages.LockName)
	c.Sections = sectionHashes(d.given)
	c.Files, c.Warnings, c.Lookup = l.files, append(l.warnings, c.Warnings...), lookup
	c.Catalogs = append(c.Catalogs, l.catalogs...)
	return c, nil
}

// setting is one value for one key. Its text is not interpreted yet.
type setting struct {
	key  string // "sandbox.timeout"
	text string
	kind string   // "", or "mapping" or "list" where a text was expected
	node ast.Node // of a structured key, in place of text
	from string   // "sandpiper.yaml line 3", "SANDPIPER_PROFILE", "--profile"
	dir  string   // what a relative path is relative to
}

// loader collects settings in the order in which they win.
type loader struct {
	src      Sources
	env      map[string]string
	beside   map[string]string // of .env
	dir      string            // of the configuration file, else the working directory
	settings []setting
	files    []string
	catalogs []string // of the first users
	servers  string   // directories of the first users
	skills   string
	warnings []string
}

func (l *loader) collect() error {
	path, err := l.find()
	if err != nil {
		return err
	}
	l.dir = l.src.Dir
	if path != "" {
		l.dir = filepath.Dir(path)
		if err := l.yaml(path); err != nil {
			return err
		}
	}
	if err := l.dotenv(filepath.Join(l.dir, ".env"), l.dir); err != nil {
		return err
	}
	names := make([]string, 0, len(l.env))
	for name := range l.env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := l.variable(name, l.env[name], name, l.src.Dir); err != nil {
			return err
		}
	}
	for key, text := range l.src.Flags {
		l.add(setting{key: key, text: text, from: "--" + flagOf(key), dir: l.src.Dir})
	}
	return nil
}

func (l *loader) add(s setting) { l.settings = append(l.settings, s) }

func (l *loader) warn(sentence string) { l.warnings = append(l.warnings, sentence) }

// find returns the configuration file to read, "" for none.
func (l *loader) find() (string, error) {
	named, from := l.src.File, "--config"
	if named == "" {
		named, from = l.env["SANDPIPER_CONFIG"], "SANDPIPER_CONFIG"
	}
	if named != "" {
		path := absolute(named, l.src.Dir, l.env)
		if _, err := os.Stat(path); err != nil {
			return "", fault.Wrap(fault.NotFound, err, "there is no configuration file %s (%s)", path, from)
		}
		return path, nil
	}
	candidates := []string{filepath.Join(l.src.Dir, "sandpiper.yaml")}
	if dir := directories(l.env).config; dir != "" {
		candidates = append(candidates, filepath.Join(dir, "sandpiper.yaml"))
	}
	for _, path := range candidates {
		if regular(path) {
			return path, nil
		}
	}
	if path := filepath.Join(l.src.Dir, "config.yaml"); regular(path) && isSeedFile(path) {
		return path, nil
	}
	return "", nil
}

func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// flagOf is the flag that sets key.
func flagOf(key string) string {
	return strings.ReplaceAll(strings.TrimPrefix(key, "sandbox."), "_", "-")
}

// environment is environ as a map.
func environment(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			m[name] = value
		}
	}
	return m
}
