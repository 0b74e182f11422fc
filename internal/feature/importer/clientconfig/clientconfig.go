// Package clientconfig imports MCP servers from the configuration files of
// other MCP clients, edits these files, and undoes its edits.
//
// A client is a program that connects to MCP servers: Claude Code, Claude
// Desktop, Cursor, VS Code, Codex or Gemini CLI. A file is one of its
// configuration files; the author of a file in a project is the author of the
// project. An entry is the configuration of one server in a file. A reference
// is the name of a variable in place of a value; the syntax of each client is
// translated to ${NAME}.
//
// Every secret in an entry is replaced by a reference: a Server contains none.
// A literal.Variable keeps the value and does not print it.
//
// The package does not print, ask questions or read sandpiper.yaml. Functions
// may be called concurrently; two edits of one file may not.
package clientconfig

import (
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config/literal"
)

// Env describes the environment of the person whose clients are read. The
// package reads nothing from its own process.
type Env struct {
	OS     string                      // as runtime.GOOS
	Home   string                      // home directory, absolute
	Dir    string                      // working directory, possibly of a project; absolute
	Self   string                      // path of the sandpiper program; "" if it is temporary
	Lookup func(string) (string, bool) // looks up an environment variable
}

// variable returns the value of an environment variable, or "".
func (e Env) variable(name string) string {
	value, _ := e.Lookup(name)
	return value
}

// Client is a program that connects to MCP servers. In JSON it is its ID.
type Client struct {
	ID   string // on the command line
	Name string // for display
}

// MarshalText returns the ID.
func (c Client) MarshalText() ([]byte, error) { return []byte(c.ID), nil }

// File is a configuration file of a client.
type File struct {
	Client  Client `json:"client"`
	Path    string `json:"file"`
	Project bool   `json:"-"` // the file belongs to a project

	table []string // keys that lead to the servers
	toml  bool
}

// SameTable reports whether two values describe the same table of one file.
func (f File) SameTable(o File) bool { return f.Path == o.Path && slices.Equal(f.table, o.table) }

// Origin identifies an entry.
type Origin struct {
	File
	Project string `json:"project,omitempty"` // directory for which a file in the home directory has the entry; "" for all
	Name    string `json:"name"`              // the entry's name in the file
}

// Server is an imported server, with references in place of secrets.
type Server struct {
	Name      string            `json:"name"`
	From      []Origin          `json:"from"` // at least one
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Dir       string            `json:"-"` // working directory, absolute; "" means any
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Transport string            `json:"-"`               // "", http or sse
	Timeout   time.Duration     `json:"-"`               // of one call; 0 means not configured
	Notes     []string          `json:"notes,omitempty"` // settings that are not imported, as sentences

	inputs     []input // used by its references
	defaultDir bool    // Dir is not configured; the client starts the server there
}

// String omits all values, which may be secrets before redaction.
func (s Server) String() string { return "server " + s.Name }

// GoString is String.
func (s Server) GoString() string { return s.String() }

// input is a value for which VS Code prompts.
type input struct {
	id, description string
}

// Skipped is an entry that is not imported.
type Skipped struct {
	Origin
	Reason string `json:"why"` // a clause: "it is disabled there"
}

// Problem is an error in a file.
type Problem struct {
	Client  Client `json:"-"`
	Path    string `json:"file"`
	Line    int    `json:"line,omitempty"` // 0 if it concerns the whole file
	Message string `json:"error"`          // a predicate: "is not JSON"
}

// Found is the result of Find.
type Found struct {
	Clients   []Client           // installed clients, in the order of Clients
	Servers   []Server           // without duplicates; names are unique
	Variables []literal.Variable // referenced by the servers, sorted by name
	Skipped   []Skipped
	Problems  []Problem
}
