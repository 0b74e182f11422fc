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
// A Variable keeps the value and does not print it.
//
// The package does not print, ask questions or read sandpiper.yaml. Functions
// may be called concurrently; two edits of one file may not.
package clientconfig

import (
	"slices"
	"time"
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

// Client is a program that connects to MCP servers.
type Client struct {
	ID   string // on the command line
	Name string // for display
}

// File is a configuration file of a client.
type File struct {
	Client  Client
	Path    string
	Project bool // the file belongs to a project

	table []string // keys that lead to the servers
	toml  bool
}

// SameTable reports whether two values describe the same table of one file.
func (f File) SameTable(o File) bool { return f.Path == o.Path && slices.Equal(f.table, o.table) }

// Origin identifies an entry.
type Origin struct {
	File    File
	Project string // directory for which a file in the home directory has the entry; "" for all
	Name    string // the entry's name in the file
}

// Server is an imported server, with references in place of secrets.
type Server struct {
	Name      string
	From      []Origin // at least one
	Command   string
	Args      []string
	Env       map[string]string
	Dir       string // working directory, absolute; "" means any
	URL       string
	Headers   map[string]string
	Transport string        // "", http or sse
	Timeout   time.Duration // of one call; 0 means not configured
	Notes     []string      // settings that are not imported, as sentences

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
	From   Origin
	Reason string // a clause: "it is disabled there"
}

// Problem is an error in a file.
type Problem struct {
	File    File
	Line    int    // 0 if it concerns the whole file
	Message string // a predicate: "is not JSON"
}

// Found is the result of Find.
type Found struct {
	Clients   []Client   // installed clients, in the order of Clients
	Servers   []Server   // without duplicates; names are unique
	Variables []Variable // referenced by the servers, sorted by name
	Skipped   []Skipped
	Problems  []Problem
}

// Variable is an environment variable that servers reference.
type Variable struct {
	Name        string
	Servers     []string // that reference it
	Description string   // from the client; may be empty
	File        string   // path of the client's file that contains the value; "" if none does
	Set         bool     // in the environment
	value       string
}

// String omits the value.
func (v Variable) String() string { return "variable " + v.Name }

// GoString is String.
func (v Variable) GoString() string { return v.String() }

// Reveal returns the value that File contains.
func (v Variable) Reveal() string { return v.value }

// addServer adds a server to v.Servers.
func (v *Variable) addServer(server string) {
	if !slices.Contains(v.Servers, server) {
		v.Servers = append(v.Servers, server)
	}
}
