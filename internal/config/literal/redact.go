// Package literal finds secrets that are written in the configuration of servers, and puts references to
// variables in their place.
package literal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Server is what the configuration of a server may have secrets in.
type Server struct {
	Name    string
	File    string // that has the configuration; "" for none
	Command string
	Args    []string
	Env     map[string]string
	URL     string
	Headers map[string]string
	Inputs  map[string]string // variable -> its description
}

// Variable is an environment variable that servers reference.
type Variable struct {
	Name        string   `json:"name"`
	Servers     []string `json:"servers"`            // that reference it
	Description string   `json:"about,omitempty"`    // may be empty
	File        string   `json:"value_in,omitempty"` // that contains the value; "" if none does
	Set         bool     `json:"set"`                // in the environment
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

// Redact replaces the secrets of servers by references and returns all variables
// that the servers then reference. lookup looks up a variable of the environment.
func Redact(lookup func(string) (string, bool), all []Server) []Variable {
	r := redactor{lookup: lookup, variables: map[string]*Variable{}}
	for i := range all { // existing references keep their names
		r.addReferences(&all[i])
	}
	for i := range all {
		r.server(&all[i])
	}
	var list []Variable
	for _, name := range slices.Sorted(maps.Keys(r.variables)) {
		v := *r.variables[name]
		_, v.Set = lookup(name)
		list = append(list, v)
	}
	return list
}

// replaceAll replaces each text of s that may refer to variables. name is that of the environment
// variable, header or flag with the text, variable that of an environment variable only.
func (s *Server) replaceAll(f func(name, text, variable string) string) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		s.Env[name] = f(name, s.Env[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		s.Headers[name] = f(name, s.Headers[name], "")
	}
	s.URL, s.Command = f("", s.URL, ""), f("", s.Command, "")
	for i, arg := range s.Args {
		s.Args[i] = f(flagBefore(s.Args, i), arg, "")
	}
}

type redactor struct {
	lookup    func(string) (string, bool)
	variables map[string]*Variable
}

// variable returns the variable with a name, which it adds if necessary.
func (r *redactor) variable(name string) *Variable {
	v := r.variables[name]
	if v == nil {
		v = &Variable{Name: name}
		r.variables[name] = v
	}
	return v
}

// addReferences adds the variables that s references.
func (r *redactor) addReferences(s *Server) {
	s.replaceAll(func(_, text, _ string) string {
		for _, ref := range reference().FindAllString(text, -1) {
			if !IsIdentifier(ref[2 : len(ref)-1]) {
				continue
			}
			v := r.variable(ref[2 : len(ref)-1])
			v.addServer(s.Name)
			if v.Description == "" {
				v.Description = s.Inputs[v.Name]
			}
		}
		return text
	})
}

// server replaces the secrets of s.
func (r *redactor) server(s *Server) {
	s.replaceAll(func(name, text, variable string) string { return r.text(s, name, text, variable) })
}

// flagBefore returns the name of the flag whose value is argument i, or "".
func flagBefore(args []string, i int) string {
	if i == 0 || !strings.HasPrefix(args[i-1], "-") || strings.ContainsAny(args[i-1], "= ") || strings.HasPrefix(args[i], "-") {
		return ""
	}
	return strings.TrimLeft(args[i-1], "-")
}

// text returns a value without its secrets. variable is the preferred name if
// the whole value is one secret; "" derives the name from the server's.
func (r *redactor) text(s *Server, name, value, variable string) string {
	var b strings.Builder
	end := 0
	for _, x := range secretsIn(name, value) {
		preferred := ""
		if x.from == 0 && x.to == len(value) {
			preferred = variable
		}
		b.WriteString(value[end:x.from] + "${" + r.assign(s, preferred, x.label, value[x.from:x.to]) + "}")
		end = x.to
	}
	return b.String() + value[end:]
}

// assign returns the variable of a secret: the preferred one if it is free or
// has the same value, otherwise one with the name of the server.
func (r *redactor) assign(s *Server, preferred, label, secret string) string {
	server := EnvName(s.Name)
	prefixed := server + "_" + label
	if strings.HasPrefix(label, server+"_") {
		prefixed = label
	}
	candidates := []string{prefixed}
	if IsIdentifier(preferred) {
		candidates = []string{preferred, prefixed}
	}
	for n := 2; ; n++ {
		for _, name := range candidates {
			if r.setValue(s, name, secret) {
				return name
			}
		}
		candidates = []string{fmt.Sprintf("%s_%d", prefixed, n)}
	}
}

// setValue sets the value of a variable. It reports false if the variable has
// another value, has another value in the environment, which takes precedence,
// or is referenced by other servers, which would receive this secret.
func (r *redactor) setValue(s *Server, name, secret string) bool {
	if set, ok := r.lookup(name); ok && set != secret {
		return false
	}
	v := r.variable(name)
	if v.value == "" && slices.ContainsFunc(v.Servers, func(name string) bool { return name != s.Name }) {
		return false
	}
	if v.value == "" {
		v.value, v.File = secret, s.File
	}
	if v.value != secret {
		return false
	}
	v.addServer(s.Name)
	return true
}
