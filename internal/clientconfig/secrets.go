package clientconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// conceal puts references in place of the secrets of servers, and returns all
// variables that they then refer to.
func conceal(env Env, all []Server) []Variable {
	c := concealer{env: env, variables: map[string]*Variable{}}
	for i := range all { // what was a reference before keeps its name
		c.known(&all[i])
	}
	for i := range all {
		c.server(&all[i])
	}
	var list []Variable
	for _, name := range slices.Sorted(maps.Keys(c.variables)) {
		v := *c.variables[name]
		_, v.Set = env.Lookup(name)
		list = append(list, v)
	}
	return list
}

type concealer struct {
	env       Env
	variables map[string]*Variable
}

// known notes the references that stand in s.
func (c *concealer) known(s *Server) {
	texts := append([]string{s.Command, s.URL, s.Dir}, s.Args...)
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			texts = append(texts, m[name])
		}
	}
	for _, text := range texts {
		for _, ref := range reference.FindAllString(text, -1) {
			name := ref[2 : len(ref)-1]
			v := c.variables[name]
			if v == nil {
				v = &Variable{Name: name}
				c.variables[name] = v
			}
			v.need(s.Name)
			for _, in := range s.inputs {
				if in.id == name && v.What == "" {
					v.What = in.description
				}
			}
		}
	}
}

func (c *concealer) server(s *Server) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		s.Env[name] = c.text(s, name, s.Env[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		s.Headers[name] = c.text(s, name, s.Headers[name], "")
	}
	s.URL = c.text(s, "", s.URL, "")
	s.Command = c.text(s, "", s.Command, "")
	for i, arg := range s.Args {
		s.Args[i] = c.text(s, flagBefore(s.Args, i), arg, "")
	}
}

// flagBefore is the name of the flag whose value an argument is, or "".
func flagBefore(args []string, i int) string {
	if i == 0 || !strings.HasPrefix(args[i-1], "-") || strings.ContainsAny(args[i-1], "= ") || strings.HasPrefix(args[i], "-") {
		return ""
	}
	return strings.TrimLeft(args[i-1], "-")
}

// text returns a value without its secrets. whole is what a variable is called
// that holds all of the value; "" leaves that to the server's name.
func (c *concealer) text(s *Server, name, value, whole string) string {
	var b strings.Builder
	at := 0
	for _, x := range secretsIn(name, value) {
		wanted := ""
		if whole != "" && x.from == 0 && x.to == len(value) {
			wanted = whole
		}
		b.WriteString(value[at:x.from] + "${" + c.name(s, wanted, x.label, value[x.from:x.to]) + "}")
		at = x.to
	}
	return b.String() + value[at:]
}

// name returns the variable for a secret: the wanted name if it is free or holds
// the same, else one with the server's.
func (c *concealer) name(s *Server, wanted, label, secret string) string {
	server := screaming(s.Name)
	prefixed := server + "_" + label
	if strings.HasPrefix(label, server+"_") {
		prefixed = label
	}
	candidates := []string{prefixed}
	if identifier(wanted) {
		candidates = []string{wanted, prefixed}
	}
	for n := 2; ; n++ {
		for _, name := range candidates {
			if c.take(s, name, secret) {
				return name
			}
		}
		candidates = []string{fmt.Sprintf("%s_%d", prefixed, n)}
	}
}

// take gives a variable a value, if it has none or this one. Not free is one of
// the environment that holds something else, since that would win, and one that
// other servers refer to, since they would get this value.
func (c *concealer) take(s *Server, name, secret string) bool {
	if set, ok := c.env.Lookup(name); ok && set != secret {
		return false
	}
	v := c.variables[name]
	if v == nil {
		v = &Variable{Name: name}
		c.variables[name] = v
	}
	if v.value == "" && slices.ContainsFunc(v.Servers, func(name string) bool { return name != s.Name }) {
		return false
	}
	if v.value == "" {
		v.value, v.From = secret, s.From[0].File.Path
	}
	if v.value != secret {
		return false
	}
	v.need(s.Name)
	return true
}
