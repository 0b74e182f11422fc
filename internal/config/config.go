// Package config reads what the operator wants, from a file, a .env beside it,
// the environment and flags, and turns it into one immutable Config with the
// rooms' own values.
//
// Each source becomes a list of settings: a key, a text, and where it stands.
// Sources are applied in order, later wins; every key is parsed by one row of
// one table, whatever source it comes from. A key that nobody knows is an error
// that names the nearest known one; a key whose feature is not built yet says
// so. All errors are reported at once. Nothing is read from the process: Sources
// carries all of it. Not for concurrent use; a Config may be shared freely.
//
// The files of a project, those in the working directory, are read only if the
// user trusts their content (Trust). They add servers and make the user's
// configuration stricter, by one row of another table for each key that may.
package config

import (
	"cmp"
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
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
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

	Files     []string  // that were read, in order
	Untrusted []string  // names of files in the working directory that were not read
	Project   Additions // what those that were read add, beside Servers
	Warnings  []string  // sentences about what was understood but has no effect
}

// Additions are what the trusted files of a project add beside servers. They are
// shown before the files are trusted.
type Additions struct {
	Hooks     [][]string        // programs with their arguments
	Reads     []string          // files and directories
	Writes    []string          // likewise
	Variables map[string]string // of its .env
}

// Log says what is logged and where to.
type Log struct {
	Level slog.Level
	File  string // absolute; "" means stderr
	Root  string // directory that File may not leave by links; "" means any
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
	File    string            // configuration file; "" means that of the user and those of the project
	Environ []string          // as os.Environ returns it
	Flags   map[string]string // key -> text, only those that were given
	Assume  map[string]string // files of the project that count as trusted: path -> hash; for a preview
}

// Load reads all sources.
func Load(src Sources) (*Config, error) {
	env := environment(src.Environ)
	l := &loader{src: src, env: env, beside: map[string]string{}}
	l.collect()
	d := draft{dirs: directories(env), env: env, given: make(map[string]setting)}
	d.Workspace = defaultWorkspace()
	d.Audit = defaultAudit
	if err := d.applyAll(l); err != nil {
		return nil, err
	}
	own := func(name string) (string, bool) {
		if v, ok := env[name]; ok {
			return v, true
		}
		v, ok := l.beside[name]
		return v, ok
	}
	if err := d.embeddingsFit(own); err != nil {
		return nil, err
	}
	d.variables(own, l.warn)
	c, err := d.finish()
	if err != nil {
		return nil, err
	}
	c.Packages.LockFile = filepath.Join(cmp.Or(l.dir, c.DataDir), packages.LockName)
	c.ServersDir, c.SkillsDir = l.servers, l.skills
	c.Files, c.Warnings, c.Lookup = l.files, append(l.warnings, c.Warnings...), own
	c.Catalogs = append(c.Catalogs, l.catalogs...)
	if err := c.addProject(l, &d); err != nil {
		return nil, err
	}
	if c.Restricted && c.ServersDir != "" {
		c.ServersDir = ""
		c.warn("SERVERS_DIR has no effect with sandbox.restricted: code could reach through those modules what it may not import")
	}
	c.Sections = sectionHashes(d.given)
	return c, nil
}

func (c *Config) warn(sentence string) { c.Warnings = append(c.Warnings, sentence) }

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
	dir      string            // of the configuration file; "" if there is no place for one
	project  bool              // it reads files of a project
	settings []setting
	files    []string
	catalogs []string // of the first users
	servers  string   // directories of the first users
	skills   string
	warnings []string
	msb      []string // what asks for microsandbox, and where
	errs     []error
}

// collect reads what is the user's own: the file that is named or stands in the
// configuration directory, .env beside it, the environment and flags.
func (l *loader) collect() {
	path, err := l.find()
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	l.dir = directories(l.env).config
	if path != "" {
		l.dir = filepath.Dir(path)
		if settings, err := parseYAML(path); err != nil {
			l.errs = append(l.errs, err)
		} else {
			l.files = append(l.files, path)
			l.take(path, settings)
		}
	}
	l.readDotenv()
	names := make([]string, 0, len(l.env))
	for name := range l.env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		l.variable(name, l.env[name], name, l.src.Dir)
	}
	for key, text := range l.src.Flags {
		l.add(setting{key: key, text: text, from: "--" + flagOf(key), dir: l.src.Dir})
	}
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
	if dir := directories(l.env).config; dir != "" {
		if path := filepath.Join(dir, "sandpiper.yaml"); regular(path) {
			return path, nil
		}
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
