// Package clientconfig reads the MCP servers that stand in the configuration of
// other clients, and edits that configuration with care.
//
// A client is a program that connects to servers: Claude Code, Claude Desktop,
// Cursor, VS Code, Codex, Gemini CLI. A file is one of its files; one that stands
// in a project was written by whoever wrote the project. An entry is what such a
// file says of one server. A reference is a name in place of a value; clients
// have several forms of it, and all become ${NAME}. A variable is what a
// reference stands for.
//
// A secret that stands in an entry becomes a reference on the way: no Server
// holds one. Only a Variable does, which does not print it.
//
// The room prints nothing, asks nobody and knows no flags. It does not know
// sandpiper.yaml, and decides nothing about what is done with what it found.
// Functions may be called concurrently; two edits of one file may not.
package clientconfig

import (
	"slices"
	"time"
)

// Env is where a person works. Nothing is read from the process itself.
type Env struct {
	OS     string                      // as runtime.GOOS
	Home   string                      // absolute
	Dir    string                      // the working directory, which may be a project; absolute
	Self   string                      // our own program, to be known again; "" if it has no lasting place
	Lookup func(string) (string, bool) // of environment variables
}

// variable is an environment variable, or "".
func (e Env) variable(name string) string {
	value, _ := e.Lookup(name)
	return value
}

// Origin says where an entry stands.
type Origin struct {
	File    File
	Project string // the directory for which a file in the home directory holds it; "" for everywhere
	Name    string // what it is called there
}

// Server is one that clients use, with references in place of secrets.
type Server struct {
	Name      string
	From      []Origin // at least one
	Command   string
	Args      []string
	Env       map[string]string
	Dir       string // working directory, absolute; "" means whichever
	URL       string
	Headers   map[string]string
	Transport string        // "", http or sse
	Timeout   time.Duration // of one call; 0 means that nothing is said
	Notes     []string      // what the entry says and has no effect here, as sentences

	inputs  []input // that are asked for by references in it
	implied bool    // Dir is where the client happens to start it
}

// String hides what an entry that was not looked at yet may hold.
func (s Server) String() string { return "server " + s.Name }

// GoString hides what an entry that was not looked at yet may hold.
func (s Server) GoString() string { return s.String() }

// Left is an entry that is not taken.
type Left struct {
	From Origin
	Why  string // the end of a sentence: "it is switched off there"
}

// Problem is a file that could not be read.
type Problem struct {
	File File
	Line int    // 0 if the whole file is meant
	What string // the end of a sentence: "is not JSON"
}

// Found is all that is known of a person's clients.
type Found struct {
	Clients   []Client   // that are used here, in a fixed order
	Servers   []Server   // merged, each with a name of its own
	Variables []Variable // that the servers refer to, by name
	Left      []Left
	Problems  []Problem
}

// Find reads the configuration of all clients. Entries of files that stand in a
// project are taken only if project is true, and only those of env.Dir.
func Find(env Env, project bool) Found {
	f := Found{Clients: present(env)}
	var all []Server
	for _, file := range files(env) {
		entries, problem := file.entries(env)
		if problem != nil {
			f.Problems = append(f.Problems, *problem)
		}
		for _, e := range entries {
			s, why := e.server(env, project)
			if why != "" {
				f.Left = append(f.Left, Left{e.from, why})
				continue
			}
			all = append(all, s)
		}
	}
	f.Servers = merge(env, all)
	f.Variables = conceal(env, f.Servers)
	return f
}

// Variable is an environment variable that servers refer to.
type Variable struct {
	Name    string
	Servers []string // that need it
	What    string   // what a client tells the person of it; may be empty
	From    string   // path of the file in which its value stands; "" if it stands in none
	Set     bool     // in the environment
	value   string
}

// String hides the value.
func (v Variable) String() string { return "variable " + v.Name }

// GoString hides the value.
func (v Variable) GoString() string { return v.String() }

// Reveal returns the value that stands in From.
func (v Variable) Reveal() string { return v.value }

// need adds a server to the variable's.
func (v *Variable) need(server string) {
	if !slices.Contains(v.Servers, server) {
		v.Servers = append(v.Servers, server)
	}
}
