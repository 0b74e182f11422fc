package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// piiKeys are the keys of privacy.
var piiKeys = map[string]key{
	"pii.key_command": {
		read: func(d *draft, s setting) error {
			if err := list(&d.PII.KeyCommand, s.node); err != nil || len(d.PII.KeyCommand) == 0 || d.PII.KeyCommand[0] == "" {
				return fault.New(fault.Invalid, "%s: %s must be a list of a program and its arguments, such as [op, read, "+
					"\"op://Private/sandpiper/key\"]", s.from, s.key)
			}
			findProgram(d, d.PII.KeyCommand, s)
			return nil
		},
		structured: true,
		fixed:      func(c *Config) any { return &c.PII.KeyCommand },
	},
}

// PII configures the protection of personal data and secrets.
type PII struct {
	// mode of package redact; never empty
	Mode string `key:"mode,tenant" allow:"off egress strict" project:"tighten"`
	// whether restore_pii shows values: auto (over stdio only), allow or deny
	Restore string `key:"restore,tenant" allow:"allow auto deny" project:"tighten"`
	// IP addresses to redact: public or all; "" means public
	Addresses  string                        `key:"addresses,tenant" allow:"public all" project:"tighten"`
	Key        string                        `key:"key,restart"` // reference to the master key, for package vault; "" means its default
	KeyCommand []string                      // program and arguments that print the master key, instead of Key; nil means none
	Flows      []redact.Flow                 `key:"flows,tenant" project:"done"` // in the order of the file
	Project    []redact.Flow                 // of a project, which can only deny; nil means none
	Except     []redact.Exception            `key:"exceptions,tenant"` // values that are detected and not private
	Scan       detect.Config                 `key:",inline"`           // additional types, keys and patterns
	TTL        map[detect.Type]time.Duration // lifetime of values by type; "" is the default
	// per tenant; 0 means the default of vault
	Tokens int `key:"tokens,tenant" range:"1 10000000" default:"500000" project:"lower"`
	New    int `key:"tokens_per_hour,tenant" range:"1 10000000" default:"50000" project:"lower"` // per hour; 0 means the default of vault
	// values tokenized on request, per hour; 0 means the default of vault
	Asked int `key:"queries_per_hour,tenant" range:"1 10000000" default:"10000" project:"lower"`
}

// check applies defaults and checks keys that depend on each other.
func (p *PII) check() error {
	p.Mode, p.Restore = cmp.Or(p.Mode, string(redact.Egress)), cmp.Or(p.Restore, "auto")
	p.Addresses, p.Scan.Names = cmp.Or(p.Addresses, "public"), cmp.Or(p.Scan.Names, detect.Evidence)
	scanner, err := detect.New(p.Scan)
	if err != nil {
		return err
	}
	var named []detect.Type
	for _, f := range slices.Concat(p.Flows, p.Project) {
		named = append(named, f.Types...)
	}
	for _, e := range p.Except {
		named = append(named, e.Types...)
	}
	known := p.Types()
	for _, t := range append(named, slices.Collect(maps.Keys(p.TTL))...) {
		if t != "" && !slices.Contains(known, string(t)) {
			return fault.New(fault.Invalid, "pii: there is no type %.40q%s", t, meant(fault.Nearest(string(t), known, 1))).
				WithHint("types are %s", strings.Join(known, ", "))
		}
	}
	_, err = redact.New(redact.Config{Mode: redact.Mode(p.Mode), Scanner: scanner, Flows: p.Flows, Project: p.Project,
		Exceptions: p.Except})
	return err
}

// keptAtMost shortens the lifetime of values of a type.
func (p *PII) keptAtMost(name string, limit *PII) bool {
	t := detect.Type(name)
	if name == "default" {
		t = ""
	}
	now, own := p.TTL[t]
	if !own {
		now = p.TTL[""]
	}
	if !atMost(&now, forever, limit.TTL[t]) {
		return false
	}
	if now == forever {
		now = 0
	}
	if p.TTL == nil {
		p.TTL = map[detect.Type]time.Duration{}
	}
	p.TTL[t] = now
	return true
}

func meant(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near[0])
}

// Types returns the names of all types.
func (p *PII) Types() (all []string) {
	for _, t := range detect.Types {
		all = append(all, string(t))
	}
	for _, c := range p.Scan.Patterns {
		all = append(all, string(c.Type))
	}
	for _, t := range p.Scan.Keys {
		all = append(all, string(t))
	}
	return all
}

// hinted reads an entry of pii.keys: a key whose values have a type.
func hinted(d *draft, s setting, name string) error {
	if d.PII.Scan.Keys == nil {
		d.PII.Scan.Keys = map[string]detect.Type{}
	}
	d.PII.Scan.Keys[name] = detect.Type(s.text)
	return nil
}

// kept reads an entry of pii.ttl: a type, or default.
func kept(d *draft, s setting, name string) error {
	if d.PII.TTL == nil {
		d.PII.TTL = map[detect.Type]time.Duration{}
	}
	t := detect.Type(name)
	if name == "default" {
		t = ""
	}
	ttl, err := section.Age(s.text)
	d.PII.TTL[t] = ttl
	return s.placed(err)
}
