package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// setting is an unparsed value for a key.
type setting struct {
	key  string // "sandbox.timeout"
	text string
	kind string   // "", or "mapping" or "list" instead of a single value
	node ast.Node // of a structured key, instead of text
	from string   // "sandpiper.yaml line 3", "SANDPIPER_PROFILE", "--profile"
	top  string   // of a file: where the section is that contains it
	seed string   // the key of a seed's file that it replaces
	dir  string   // base of relative paths
}

// draft is a Config under construction.
type draft struct {
	Config
	dirs  dirs
	env   map[string]string // and variables of .env
	given givenKeys         // the effective setting of each key
}

// givenKeys has the effective setting of each key that is given.
type givenKeys map[string]setting

// section returns a section as messages name it, with the place of one of its keys, and whether it has any.
func (g givenKeys) section(name string) (at string, given bool) {
	for key, s := range g {
		if strings.HasPrefix(key, name+".") {
			return s.from + ": " + name, true
		}
	}
	return name, false
}

// key is one key of the configuration. docs/configuration.md documents it.
type key struct {
	read       func(d *draft, s setting) error
	structured bool                // its value is a list or a mapping
	project    merge               // how the files of a project change it; nil if they cannot
	tenant     bool                // a tier or a tenant may set it
	fixed      func(c *Config) any // returns a pointer to the value, which needs a restart; nil if a reload changes it
}

// family is the keys that begin with a section and end with a name chosen by the user, which may contain dots.
type family struct {
	read    func(d *draft, s setting, name string) error
	project func(name string) merge // nil if the files of a project cannot change them
}

// merge applies one key of a project if it is stricter or equal, and reports whether it
// was.
type merge func(c, p *Config, s setting) bool
