package config

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Guardrails configures the checks of code and text, and hooks. The keys include those
// of the seed systems.
type Guardrails struct {
	Off        bool             // no guardrails
	Check      guardrail.Config `key:",inline"`
	Unfiltered bool             // text for models is not filtered
	Loading    bool             // keep images, tags and terminal escapes in text
	// bytes of output per execution; 0 means the default of execution
	MaxOutput int `key:"max_output_bytes,tenant" range:"1 1073741824" project:"lower"`
}

// WithDefaults fills the zero limits that the execution has a default for.
func (g Guardrails) WithDefaults() Guardrails {
	g.MaxOutput = cmp.Or(g.MaxOutput, 64<<20)
	return g
}

// ratePerMinute is the value of rate_limiting: true.
const ratePerMinute = 60

// guardrailKeys are the keys of guardrails.
var guardrailKeys = map[string]key{
	"guardrails.enabled": {
		read:    func(d *draft, s setting) error { return denied(&d.Guardrails.Off, s) },
		project: func(c, p *Config, _ setting) bool { return never(&c.Guardrails.Off, p.Guardrails.Off) },
	},
	"guardrails.security_checks": {
		read: func(d *draft, s setting) error { return denied(&d.Guardrails.Check.SkipInput, s) },
		project: func(c, p *Config, _ setting) bool {
			return never(&c.Guardrails.Check.SkipInput, p.Guardrails.Check.SkipInput)
		},
	},
	"guardrails.content_filtering": {
		read:    func(d *draft, s setting) error { return denied(&d.Guardrails.Unfiltered, s) },
		project: func(c, p *Config, _ setting) bool { return never(&c.Guardrails.Unfiltered, p.Guardrails.Unfiltered) },
	},
	"guardrails.neutralize": {
		read:    func(d *draft, s setting) error { return denied(&d.Guardrails.Loading, s) },
		project: func(c, p *Config, _ setting) bool { return never(&c.Guardrails.Loading, p.Guardrails.Loading) },
	},
	"guardrails.privacy_protection": {read: private, project: protect},
	"guardrails.pii_detection":      {read: private, project: protect},
	"guardrails.tokenization":       {read: private, project: protect},
	"guardrails.rate_limiting": {
		read: func(d *draft, s setting) error { return rate(&d.Guardrails.Check.PerMinute, s) },
		project: func(c, p *Config, _ setting) bool {
			return atMost(&c.Guardrails.Check.PerMinute, math.MaxInt, p.Guardrails.Check.PerMinute)
		},
	},
	"guardrails.allowed_networks": {read: networks, structured: true, project: done}, // the list is empty
	"guardrails.blocked_patterns": {
		read: func(d *draft, s setting) error {
			return blocked(d, &d.Guardrails.Check.Patterns, s, "a regular expression")
		},
		structured: true,
		project: func(c, p *Config, _ setting) bool {
			c.Guardrails.Check.Patterns = slices.Concat(c.Guardrails.Check.Patterns, p.Guardrails.Check.Patterns)
			return true
		},
	},
	"guardrails.blocked_paths": {
		read: func(d *draft, s setting) error {
			return blocked(d, &d.Guardrails.Check.Paths, s, "a path, or a part of one")
		},
		structured: true,
		project: func(c, p *Config, _ setting) bool {
			c.Guardrails.Check.Paths = slices.Concat(c.Guardrails.Check.Paths, p.Guardrails.Check.Paths)
			return true
		},
	},
	"guardrails.hooks": {
		read:       hooks,
		structured: true,
		project: func(c, p *Config, _ setting) bool {
			c.Guardrails.Check.Hooks = slices.Concat(c.Guardrails.Check.Hooks, p.Guardrails.Check.Hooks)
			return true
		},
	},
}

func joined[V any](all ...map[string]V) map[string]V {
	one := map[string]V{}
	for _, m := range all {
		maps.Copy(one, m)
	}
	return one
}

// denied reads a boolean key that is negated in Config.
func denied(to *bool, s setting) error {
	*to = s.text == "false"
	return s.placed(section.OneOf(s.text, "true", "false"))
}

// private reads a seed key that enables privacy. Privacy is always enabled unless
// pii.mode is off.
func private(d *draft, s setting) error {
	if err := section.OneOf(s.text, "true", "false"); err != nil {
		return s.placed(err)
	}
	if s.text == "false" {
		d.Warnings = append(d.Warnings, s.from+": "+s.key+" has no effect as false: values are replaced unless pii.mode is off, in so "+
			"many words")
	}
	return nil
}

// consistent rejects contradicting keys.
func (d *draft) consistent() error {
	for _, key := range []string{"guardrails.privacy_protection", "guardrails.pii_detection", "guardrails.tokenization"} {
		if s, ok := d.given[key]; ok && s.text == "true" && d.PII.Mode == string(redact.Off) {
			return fault.New(fault.Invalid, "%s: %s is true, and %s: pii.mode is off", s.from, key, d.given["pii.mode"].from).
				WithHint("remove one of them")
		}
	}
	if key, command := d.given["pii.key"], d.given["pii.key_command"]; key.text != "" && command.key != "" {
		return fault.New(fault.Invalid, "%s: pii.key is set, and %s: pii.key_command", key.from, command.from).
			WithHint("remove one of them")
	}
	if d.Guardrails.Off && len(d.Guardrails.Check.Hooks) > 0 {
		d.Warnings = append(d.Warnings, d.given["guardrails.hooks"].from+": guardrails.hooks has no effect: guardrails.enabled is false")
	}
	return nil
}

// rate reads the number of executions that a tenant may start per minute.
func rate(to *int, s setting) error {
	switch s.text {
	case "true":
		*to = ratePerMinute
		return nil
	case "false":
		*to = 0
		return nil
	}
	if whole(to, s, 1, 100_000) != nil {
		return wrong(s, "true, false or a number of executions per minute")
	}
	return nil
}

// networks accepts only an empty list.
func networks(_ *draft, s setting) error {
	if seq, ok := s.node.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "%s: %s is not available: guardrails allow no networks", s.from, s.key).
		WithHint("remove it, or write []; network.allow lists the hosts to which code may send requests")
}

// blocked reads patterns that code and arguments must not contain.
func blocked(d *draft, to *[]string, s setting, what string) error {
	if err := names(to, s, what); err != nil {
		return err
	}
	if _, err := guardrail.New(guardrail.Config{Patterns: d.Guardrails.Check.Patterns, Paths: d.Guardrails.Check.Paths}); err != nil {
		return fault.Wrap(fault.Invalid, err, "%s: %s", s.from, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

func hooks(d *draft, s setting) error {
	if err := s.entries(&d.Guardrails.Check.Hooks, d); err != nil {
		return err
	}
	for i := range d.Guardrails.Check.Hooks {
		findProgram(d, d.Guardrails.Check.Hooks[i].Command, s)
	}
	if _, err := guardrail.New(guardrail.Config{Hooks: d.Guardrails.Check.Hooks}); err != nil {
		return fault.Wrap(fault.Invalid, err, "%s: %s", s.from, fault.Message(err))
	}
	return nil
}
