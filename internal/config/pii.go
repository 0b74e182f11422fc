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

// PII says how personal data and secrets are kept from models.
type PII struct {
	Mode      string                        // of package egress; never empty
	Restore   string                        // whether a model may be shown values: auto (of the person's own over stdio), allow or deny
	Addresses string                        // which IP addresses are replaced: public or all; "" means public
	Key       string                        // names the master key, for package vault; "" is its default
	Flows     []redact.Flow                 // in the order of the file
	Project   []redact.Flow                 // of a project: they can only refuse; nil for none
	Scan      detect.Config                 // what is private beside what is built in
	TTL       map[detect.Type]time.Duration // how long values are kept, by type; "" for all others
	Tokens    int                           // of one tenant; 0 means the vault's default, as for the next
	New       int                           // in an hour
	Asked     int                           // values tokenised on request, in an hour
}

// check fills in defaults, and holds against each other what stands in several
// places.
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
	known := p.types()
	for _, t := range append(named, slices.Collect(maps.Keys(p.TTL))...) {
		if t != "" && !slices.Contains(known, string(t)) {
			return fault.New(fault.Invalid, "pii: there is no type %.40q%s", t, meant(fault.Nearest(string(t), known, 1))).
				WithHint("types are %s", strings.Join(known, ", "))
		}
	}
	_, err = redact.New(redact.Config{Mode: redact.Mode(p.Mode), Scanner: scanner, Flows: p.Flows, Project: p.Project})
	return err
}

func meant(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near[0])
}

// types are the names of all that can be found.
func (p *PII) types() (all []string) {
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
	"types": func(f *redact.Flow, n ast.Node) error {
		var names []string
		err := list(&names, n)
		for _, t := range names {
			f.Types = append(f.Types, detect.Type(t))
		}
		return err
	},
	"to":       func(f *redact.Flow, n ast.Node) error { return scalar(&f.To, n) },
	"args":     func(f *redact.Flow, n ast.Node) error { return list(&f.Args, n) },
	"decision": func(f *redact.Flow, n ast.Node) error { return scalar((*string)(&f.Decision), n) },
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

// hinted reads one of pii.keys: a key whose values are of a type.
func hinted(d *draft, s setting, name string) error {
	if d.PII.Scan.Keys == nil {
		d.PII.Scan.Keys = map[string]detect.Type{}
	}
	d.PII.Scan.Keys[name] = detect.Type(s.text)
	return nil
}

// kept reads one of pii.ttl: a type, or default.
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
