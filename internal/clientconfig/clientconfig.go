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

// Find reads the configuration of all clients. Entries of project files are
// imported only if project is true, and only those of env.Dir.
func Find(env Env, project bool) Found {
	f := Found{Clients: installed(env)}
	var all []Server
	for _, file := range files(env) {
		entries, problem := file.entries(env)
		if problem != nil {
			f.Problems = append(f.Problems, *problem)
		}
		for _, e := range entries {
			s, reason := e.server(env, project)
			if reason != "" {
				f.Skipped = append(f.Skipped, Skipped{e.from, reason})
				continue
			}
			all = append(all, s)
		}
	}
	f.Servers = merge(env, all)
	f.Variables = redact(env, f.Servers)
	return f
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
