package clientconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// redact replaces the secrets of servers by references and returns all variables
// that the servers then reference.
func redact(env Env, all []Server) []Variable {
	r := redactor{env: env, variables: map[string]*Variable{}}
	for i := range all { // existing references keep their names
		r.addReferences(&all[i])
	}
	for i := range all {
		r.server(&all[i])
	}
	var list []Variable
	for _, name := range slices.Sorted(maps.Keys(r.variables)) {
		v := *r.variables[name]
		_, v.Set = env.Lookup(name)
		list = append(list, v)
	}
	return list
}

// FindSecrets returns a server of sandpiper.yaml with references in place of its secrets, and the
// names of the variables that these references need, sorted.
func FindSecrets(env Env, s Server) (Server, []string) {
	s.Args, s.Env, s.Headers = slices.Clone(s.Args), maps.Clone(s.Env), maps.Clone(s.Headers)
	s.From = []Origin{{}}
	var back []string // pairs of a reference to a variable, and the one that it replaces
	s.replaceAll(func(text string) string {
		return stored().ReplaceAllStringFunc(text, func(ref string) string {
			name := fmt.Sprintf("${_REFERENCE_%d}", len(back))
			back = append(back, name, ref)
			return name
		})
	})
	r := redactor{env: env, variables: map[string]*Variable{}}
	r.addReferences(&s)
	r.server(&s)
	s.replaceAll(strings.NewReplacer(back...).Replace)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.variables)) {
		if r.variables[name].value != "" {
			names = append(names, name)
		}
	}
	return s, names
}

// stored matches a reference to a file or a keyring, which only sandpiper.yaml has.
var stored = lazyregexp.New(`\$\{(?:file|keyring):[^}]*\}`)

// replaceAll replaces each text of s that may refer to variables.
func (s *Server) replaceAll(f func(string) string) {
	s.Command, s.URL = f(s.Command), f(s.URL)
	for i := range s.Args {
		s.Args[i] = f(s.Args[i])
	}
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for name := range m {
			m[name] = f(m[name])
		}
	}
}

type redactor struct {
	env       Env
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
	texts := append([]string{s.Command, s.URL, s.Dir}, s.Args...)
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			texts = append(texts, m[name])
		}
	}
	for _, text := range texts {
		for _, ref := range reference().FindAllString(text, -1) {
			v := r.variable(ref[2 : len(ref)-1])
			v.addServer(s.Name)
			for _, in := range s.inputs {
				if in.id == v.Name && v.Description == "" {
					v.Description = in.description
				}
			}
		}
	}
}

func (r *redactor) server(s *Server) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		s.Env[name] = r.text(s, name, s.Env[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		s.Headers[name] = r.text(s, name, s.Headers[name], "")
	}
	s.URL = r.text(s, "", s.URL, "")
	s.Command = r.text(s, "", s.Command, "")
	for i, arg := range s.Args {
		s.Args[i] = r.text(s, flagBefore(s.Args, i), arg, "")
	}
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
	server := envName(s.Name)
	prefixed := server + "_" + label
	if strings.HasPrefix(label, server+"_") {
		prefixed = label
	}
	candidates := []string{prefixed}
	if isIdentifier(preferred) {
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
	if set, ok := r.env.Lookup(name); ok && set != secret {
		return false
	}
	v := r.variable(name)
	if v.value == "" && slices.ContainsFunc(v.Servers, func(name string) bool { return name != s.Name }) {
		return false
	}
	if v.value == "" {
		v.value, v.File = secret, s.From[0].File.Path
	}
	if v.value != secret {
		return false
	}
	v.addServer(s.Name)
	return true
}
