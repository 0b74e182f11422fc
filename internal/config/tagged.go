package config

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// taggedKeys are the keys that the fields of Config are.
var taggedKeys = tagged(&Config{}, func(c *Config) any { return c })

// tagged returns the keys of a struct such as zero; see package section. of returns that of a configuration.
func tagged(zero any, of func(*Config) any) map[string]key {
	all := map[string]key{}
	for _, f := range section.Fields(zero) {
		k := key{
			read:       func(d *draft, s setting) error { return s.set(of(&d.Config), f, d.dirs.home) },
			structured: f.Structured,
			tenant:     f.Tenant,
		}
		switch f.Project {
		case "":
		case "done":
			k.project = done
		default:
			k.project = func(c, p *Config, _ setting) bool { return f.Tighten(of(c), of(p)) }
		}
		if f.Restart {
			k.fixed = func(c *Config) any { return f.Pointer(of(c)) }
		}
		all[f.Name] = k
		if f.Alias != "" {
			all[f.Alias] = k.alias(f.Name)
		}
	}
	return all
}

// alias returns a key of a seed system that sets the key k of that name.
func (k key) alias(of string) key {
	return key{
		read: func(d *draft, s setting) error {
			d.given[of] = s
			return k.read(d, s)
		},
		project: k.project,
	}
}

// set sets a field to the value of s.
func (s setting) set(to any, f section.Field, home string) error {
	if f.Structured {
		return s.placed(f.SetNode(to, s.key, s.node, s.source(home)))
	}
	return s.placed(f.SetText(to, s.text, s.source(home)))
}

// entries reads a list or a mapping into what to points to.
func (s setting) entries(to any, d *draft) error {
	return s.placed(section.Set(to, s.key, s.node, s.source(d.dirs.home)))
}

func (s setting) source(home string) section.Source {
	file, _, _ := strings.Cut(s.from, " line ")
	return section.Source{File: file, Dir: s.dir, Home: home}
}

// placed adds the place and the key of s to an error about its value, unless it has a place already.
func (s setting) placed(err error) error {
	file, _, _ := strings.Cut(s.from, " line ")
	if err == nil || strings.HasPrefix(fault.Message(err), file+" line ") {
		return err
	}
	text := fault.Message(err)
	if !strings.HasPrefix(text, s.key+":") {
		text = s.key + " " + text
	}
	e := fault.New(fault.Invalid, "%s: %s", s.from, text)
	if hint := fault.Hint(err); hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}
