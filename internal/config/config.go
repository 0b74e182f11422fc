// Package config reads the configuration from a file, the .env in the same directory,
// the environment and flags, and converts it to an immutable Config with the Config
// values of other packages.
//
// Each source becomes a list of settings: key, text and position. Sources are applied
// in order and later ones win. One table has all about each key: how it is parsed, whether
// a project, a tier or a tenant may set it, and whether a reload changes it. An
// unknown key is an error that names the nearest known key. All errors are reported
// together. Sources contains all input: the package reads no process state. Loading is
// not for concurrent use; a Config is.
//
// The files of a project, those in the working directory, are read only if the user
// trusts their content (Trust). They add servers and make the configuration stricter.
package config

import (
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Config is the merged configuration.
type Config struct {
	Profile string // lean, standard, full, or that of a feature
	Backend string // auto, process or that of a feature; see Sandbox
	// shared or own: of the network and IPC of workers
	Namespaces string           `key:"sandbox.namespaces,restart" allow:"shared own" project:"tighten"`
	Epoll      bool             `key:"sandbox.epoll,restart"` // allow epoll
	Limits     execution.Limits `key:"sandbox"`               // defaults applied
	Workspace  Workspace        `key:"workspace"`
	RecentCode time.Duration    // how long the code of executions is kept; 0 means 24 hours, negative keeps none
	// time without use after which `tenant clean` deletes a tenant; 0 means never
	Inactive   time.Duration      `key:"inactive,tenant" form:"age"`
	Quotas     quota.Limits       // of each tenant, in periods of time; nil means none
	MemoryMB   int                // of the daemon, for requests of one tenant; 0 means the default of memory
	Admit      admit.Config       `key:"sandbox"`    // zero fields mean the defaults of admit
	Background Background         `key:"background"` // executions without a caller
	Sessions   execution.Sessions `key:"sessions"`   // live interpreters; zero fields mean the defaults of execution
	Packages   packages.Config    // of the default package layer; LockFile and LayerDir are always set
	Preload    []string           // modules imported in the zygote of the default package layer
	// SubordinateUIDs gives the tenants of an ordinary user the ids of /etc/subuid.
	SubordinateUIDs bool `key:"sandbox.subordinate_uids,restart"`
	// FormerSetting is the setting of a former system's file that selects Backend, with its position; "" for sandbox.backend.
	FormerSetting string
	// PackageLayers are further layers by name, and PackageLayer is the name of the layer
	// that code may import from: one of them, DefaultPackageLayer or NoPackageLayer.
	PackageLayers map[string]PackageLayer
	PackageLayer  string `key:"sandbox.package_layer,tenant"`
	DataDir       string `key:"data_dir,restart" form:"path"`  // absolute
	CacheDir      string `key:"cache_dir,restart" form:"path"` // absolute
	UserDir       string // directory of the user's configuration, absolute; "" means none
	Log           Log
	HTTP          HTTP             `key:"http"`
	Servers       []Server         // MCP servers and APIs, in the order of the file
	Disabled      []string         // names of disabled servers of the user, which a project cannot add
	Catalogs      []string         // files and directories of static tool catalogs, absolute
	ServersDir    string           // handwritten modules, SERVER/TOOL.py; absolute, "" for none
	SkillsDir     string           // skills to import for the local tenant; absolute, "" for none
	Search        Search           `key:"search"`
	PII           PII              `key:"pii"`
	Policy        policy.Config    `key:"policy"` // as written, not checked
	Audit         audit.Retention  `key:"audit"`
	Telemetry     telemetry.Config `key:"telemetry"` // without Version, Console and Log
	// Sections are hashes of the parts of the configuration, to detect changes without
	// storing them.
	Sections map[string]string
	// Keys are hashes of the settings by key; see ChangedKeys.
	Keys       map[string]string
	Given      []Setting  // the effective settings of the user, by key
	Approvals  Approvals  `key:"approvals"`
	Guardrails Guardrails `key:"guardrails"`
	// Allow selects the servers and tools of a tenant; nil selects all.
	Allow       *catalog.Allow
	Credentials map[string]map[string]string // of a tenant, by server and variable; references to secrets
	Features    *Features                    // settings of features; see Of
	Subsets     map[string]*catalog.Allow    // of servers and tools, which clients choose by name
	Tenants     *Tenants                     // settings of tiers and tenants; nil means none
	// Lookup expands ${NAME} in Servers and settings of features, from the environment or .env.
	Lookup func(name string) (value string, ok bool)

	Files     []string  // files that were read, in order
	Untrusted []string  // untrusted files in the working directory, which were not read
	Project   Additions // what trusted project files add, other than servers
	Warnings  []string  // settings without effect
}

// Additions lists everything that the files of a project add, except servers. It is shown
// before the files are trusted.
type Additions struct {
	Hooks     [][]string        // programs with their arguments
	Reads     []string          // files and directories
	Writes    []string          // files and directories
	Variables map[string]string // from its .env
}

// Log configures the log.
type Log struct {
	Level slog.Level
	File  string // absolute; "" means stderr
	Root  string // directory that File must be in, with symbolic links resolved; "" means any
}

// Approvals configures approvals.
type Approvals struct {
	Timeout time.Duration `key:"timeout,tenant" default:"24h" project:"lower"` // lifetime of a question; 0 means the default of approval
	Via     approval.Via  // where approvals are answered; "" means both
}

// HTTP configures serve --http.
type HTTP struct {
	Tokens    []Token // accepted bearer tokens; see Authenticated
	Keys      bool    `key:"api_keys"`                       // accept API keys
	OIDC      OIDC    `key:"oidc"`                           // accept tokens of an OpenID provider
	TLS       TLS     `key:"tls"`                            // encrypt connections, and accept client certificates
	AccessLog string  `key:"access_log,restart" form:"path"` // file of the access log, absolute; "" means none
	Events    bool    `key:"sse,restart"`                    // serve the HTTP+SSE transport of 2024-11-05 at /sse

	Connections int `key:"connections,restart" range:"1 1048576"` // network connections; 0 means the default of httpserver
	// network connections per address; 0 means the default of httpserver
	PerAddress       int `key:"connections_per_address,restart" range:"1 1048576"`
	TokenConnections int `key:"mcp_connections_per_token,restart" range:"1 10000"` // MCP connections per token; 0 means the default of wire
	TokenRequests    int `key:"requests_per_token,restart" range:"1 1048576"`      // open requests per token; 0 means the default of wire

	Drain time.Duration `key:"drain,restart"` // for running calls when the daemon stops; 0 means the default of httpserver
}

// Token is a bearer token and its tenant. It prints without the secret.
type Token struct {
	Secret string
	Tenant tenant.ID
}

// String hides the secret.
func (t Token) String() string { return "token of " + t.Tenant.String() }

// GoString hides the secret.
func (t Token) GoString() string { return t.String() }

// Background are the settings of background executions. Zero fields mean defaults.
type Background struct {
	Keep    time.Duration `key:"keep" default:"24h" project:"lower"`   // how long results are kept; 0 means 24 hours
	Timeout time.Duration `key:"timeout" default:"1h" project:"lower"` // running time of one execution; 0 means one hour
	Running int           // executions at a time; 0 means half of those that run at a time
}
