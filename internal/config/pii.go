package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// piiKeys are the keys of privacy.
var piiKeys = map[string]key{
	"pii.mode": {
		read: func(d *draft, s setting) error {
			return oneOf(&d.PII.Mode, s, string(redact.Off), string(redact.Egress), string(redact.Strict))
		},
		project: func(c, p *Config, _ setting) bool {
			return stricterOf(&c.PII.Mode, p.PII.Mode, string(redact.Off), string(redact.Egress), string(redact.Strict))
		},
		tenant: true,
	},
	"pii.restore": {
		read: func(d *draft, s setting) error { return oneOf(&d.PII.Restore, s, "auto", "allow", "deny") },
		project: func(c, p *Config, _ setting) bool {
			return stricterOf(&c.PII.Restore, p.PII.Restore, "allow", "auto", "deny")
		},
		tenant: true,
	},
	"pii.names": {
		read: func(d *draft, s setting) error {
			return oneOf((*string)(&d.PII.Scan.Names), s, string(detect.Evidence), string(detect.Always), string(detect.Never))
		},
		project: func(c, p *Config, _ setting) bool {
			return stricterOf((*string)(&c.PII.Scan.Names), string(p.PII.Scan.Names), string(detect.Never), string(detect.Evidence), string(detect.Always))
		},
		tenant: true,
	},
	"pii.prose_names": {
		read:    func(d *draft, s setting) error { return boolean(&d.PII.Scan.Prose, s) },
		project: func(c, p *Config, _ setting) bool { return once(&c.PII.Scan.Prose, p.PII.Scan.Prose) },
		tenant:  true,
	},
	"pii.addresses": {
		read: func(d *draft, s setting) error { return oneOf(&d.PII.Addresses, s, "public", "all") },
		project: func(c, p *Config, _ setting) bool {
			return stricterOf(&c.PII.Addresses, p.PII.Addresses, "public", "all")
		},
		tenant: true,
	},
	"pii.key": {read: func(d *draft, s setting) error { return text(&d.PII.Key, s) }, fixed: func(c *Config) any { return &c.PII.Key }},
	"pii.key_command": {
		read: func(d *draft, s setting) error {
			if err := list(&d.PII.KeyCommand, s.node); err != nil || len(d.PII.KeyCommand) == 0 || d.PII.KeyCommand[0] == "" {
				return fault.New(fault.Invalid, "%s: %s must be a list of a program and its arguments, such as [op, read, \"op://Private/sandpiper/key\"]", s.from, s.key)
			}
			findProgram(d, d.PII.KeyCommand, s)
			return nil
		},
		structured: true,
		fixed:      func(c *Config) any { return &c.PII.KeyCommand },
	},
	"pii.flows": {
		read:       func(d *draft, s setting) error { return fillAll(&d.PII.Flows, flowKeys, s) },
		structured: true,
		project:    done,
		tenant:     true,
	},
	"pii.exceptions": {
		read:       func(d *draft, s setting) error { return fillAll(&d.PII.Except, exceptionKeys, s) },
		structured: true,
		tenant:     true,
	},
	"pii.patterns": {
		read:       func(d *draft, s setting) error { return fillAll(&d.PII.Scan.Patterns, patternKeys, s) },
		structured: true,
		project:    done,
	},
	"pii.tokens": {
		read:    func(d *draft, s setting) error { return whole(&d.PII.Tokens, s, 1, 10_000_000) },
		project: func(c, p *Config, _ setting) bool { return atMost(&c.PII.Tokens, 500_000, p.PII.Tokens) },
		tenant:  true,
	},
	"pii.tokens_per_hour": {
		read:    func(d *draft, s setting) error { return whole(&d.PII.New, s, 1, 10_000_000) },
		project: func(c, p *Config, _ setting) bool { return atMost(&c.PII.New, 50_000, p.PII.New) },
		tenant:  true,
	},
	"pii.queries_per_hour": {
		read:    func(d *draft, s setting) error { return whole(&d.PII.Asked, s, 1, 10_000_000) },
		project: func(c, p *Config, _ setting) bool { return atMost(&c.PII.Asked, 10_000, p.PII.Asked) },
		tenant:  true,
	},
}

// PII configures the protection of personal data and secrets.
type PII struct {
	Mode       string                        // mode of package redact; never empty
	Restore    string                        // whether restore_pii shows values: auto (over stdio only), allow or deny
	Addresses  string                        // IP addresses to redact: public or all; "" means public
	Key        string                        // reference to the master key, for package vault; "" means its default
	KeyCommand []string                      // program and arguments that print the master key, instead of Key; nil means none
	Flows      []redact.Flow                 // in the order of the file
	Project    []redact.Flow                 // of a project, which can only deny; nil means none
	Except     []redact.Exception            // values that are detected and not private
	Scan       detect.Config                 // additional types, keys and patterns
	TTL        map[detect.Type]time.Duration // lifetime of values by type; "" is the default
	Tokens     int                           // per tenant; 0 means the default of vault
	New        int                           // per hour; 0 means the default of vault
	Asked      int                           // values tokenized on request, per hour; 0 means the default of vault
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
	_, err = redact.New(redact.Config{Mode: redact.Mode(p.Mode), Scanner: scanner, Flows: p.Flows, Project: p.Project, Exceptions: p.Except})
	return err
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

var flowKeys = parsers[redact.Flow]{
	"types":    func(f *redact.Flow, n ast.Node) error { return typeList(&f.Types, n) },
	"to":       func(f *redact.Flow, n ast.Node) error { return scalar(&f.To, n) },
	"args":     func(f *redact.Flow, n ast.Node) error { return list(&f.Args, n) },
	"decision": func(f *redact.Flow, n ast.Node) error { return scalar((*string)(&f.Decision), n) },
}

var exceptionKeys = parsers[redact.Exception]{
	"types": func(e *redact.Exception, n ast.Node) error { return typeList(&e.Types, n) },
	"tool":  func(e *redact.Exception, n ast.Node) error { return scalar(&e.Tool, n) },
	"key":   func(e *redact.Exception, n ast.Node) error { return scalar(&e.Key, n) },
	"value": func(e *redact.Exception, n ast.Node) error { return scalar(&e.Value, n) },
}

func typeList(to *[]detect.Type, n ast.Node) error {
	var names []string
	err := list(&names, n)
	for _, t := range names {
		*to = append(*to, detect.Type(t))
	}
	return err
}

var patternKeys = parsers[detect.Pattern]{
	"type":    func(p *detect.Pattern, n ast.Node) error { return scalar((*string)(&p.Type), n) },
	"pattern": func(p *detect.Pattern, n ast.Node) error { return scalar(&p.Expr, n) },
}

// fillAll reads a list of mappings.
func fillAll[T any](to *[]T, p parsers[T], s setting) error {
	seq, ok := s.node.(*ast.SequenceNode)
	if !ok {
		return fault.New(fault.Invalid, "%s: %s must be a list", s.from, s.key)
	}
	*to = nil
	for i, n := range seq.Values {
		var one T
		if err := p.fill(&one, n); err != nil {
			return fault.New(fault.Invalid, "%s: entry %d of %s %s", s.from, i+1, s.key, err)
		}
		*to = append(*to, one)
	}
	return nil
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
	var ttl time.Duration
	err := days(&ttl, s)
	d.PII.TTL[t] = ttl
	return err
}
