package config

import (
	"maps"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Guardrails say what is looked for in code and texts, and who else is asked. The
// keys are those that the first users know, and some more.
type Guardrails struct {
	Off        bool // all of it
	Check      guardrail.Config
	Unfiltered bool // texts reach a model as they are
	Loading    bool // with what clients load and terminals obey in them
	MaxOutput  int  // bytes that code may print; 0 means the runner's default
}

// ratePerMinute is what rate_limiting: true means.
const ratePerMinute = 60

// guardrailKeys are the keys of guardrails: how each text is understood.
var guardrailKeys = map[string]func(d *draft, s setting) error{
	"guardrails.enabled":            func(d *draft, s setting) error { return denied(&d.Guardrails.Off, s) },
	"guardrails.strict_mode":        func(d *draft, s setting) error { return boolean(&d.Guardrails.Check.Strict, s) },
	"guardrails.security_checks":    func(d *draft, s setting) error { return denied(&d.Guardrails.Check.SkipInput, s) },
	"guardrails.content_filtering":  func(d *draft, s setting) error { return denied(&d.Guardrails.Unfiltered, s) },
	"guardrails.neutralize":         func(d *draft, s setting) error { return denied(&d.Guardrails.Loading, s) },
	"guardrails.privacy_protection": private,
	"guardrails.pii_detection":      private,
	"guardrails.tokenization":       private,
	"guardrails.restricted":         func(d *draft, s setting) error { return boolean(&d.Restricted, s) },
	"guardrails.rate_limiting":      func(d *draft, s setting) error { return d.rate(s) },
	"guardrails.max_execution_time": func(d *draft, s setting) error {
		d.given["sandbox.max_timeout"] = s
		return duration(&d.Limits.MaxTimeout, s)
	},
	"guardrails.max_memory_mb": func(d *draft, s setting) error {
		d.given["sandbox.max_memory_mb"] = s
		return whole(&d.Limits.MaxMemoryMB, s, 1, 1<<20)
	},
	"guardrails.max_code_bytes":   func(d *draft, s setting) error { return whole(&d.Guardrails.Check.MaxCode, s, 1, 1<<30) },
	"guardrails.max_vars_bytes":   func(d *draft, s setting) error { return whole(&d.Guardrails.Check.MaxVars, s, 1, 1<<30) },
	"guardrails.max_output_bytes": func(d *draft, s setting) error { return whole(&d.Guardrails.MaxOutput, s, 1, 1<<30) },
	"guardrails.allowed_networks": networks,
	"guardrails.blocked_patterns": func(d *draft, s setting) error {
		return d.blocked(&d.Guardrails.Check.Patterns, s, "a regular expression")
	},
	"guardrails.blocked_paths": func(d *draft, s setting) error {
		return d.blocked(&d.Guardrails.Check.Paths, s, "a path, or a part of one")
	},
	"guardrails.hooks": func(d *draft, s setting) error { return d.hooks(s) },
}

func joined[V any](all ...map[string]V) map[string]V {
	one := map[string]V{}
	for _, m := range all {
		maps.Copy(one, m)
	}
	return one
}

// denied reads a key whose false is what the Config has a word for.
func denied(to *bool, s setting) error {
	var yes bool
	err := boolean(&yes, s)
	*to = !yes
	return err
}

// private reads a key of the first users that says that privacy is protected. It is
// unless pii.mode says otherwise, which is the one place to do so.
func private(d *draft, s setting) error {
	var yes bool
	if err := boolean(&yes, s); err != nil {
		return err
	}
	if !yes {
		d.Warnings = append(d.Warnings, s.from+": "+s.key+" has no effect as false: values are replaced unless pii.mode is off, in so many words")
	}
	return nil
}

// consistent refuses keys that say both.
func (d *draft) consistent() error {
	for _, key := range []string{"guardrails.privacy_protection", "guardrails.pii_detection", "guardrails.tokenization"} {
		if s, ok := d.given[key]; ok && s.text == "true" && d.PII.Mode == string(redact.Off) {
			return fault.New(fault.Invalid, "%s: %s is true, and %s: pii.mode is off", s.from, key, d.given["pii.mode"].from).WithHint("remove one of them")
		}
	}
	if d.Guardrails.Off && len(d.Guardrails.Check.Hooks) > 0 {
		d.Warnings = append(d.Warnings, d.given["guardrails.hooks"].from+": guardrails.hooks has no effect: guardrails.enabled is false")
	}
	return nil
}

// rate reads how many executions a tenant may start within a minute.
func (d *draft) rate(s setting) error {
	switch s.text {
	case "true":
		d.Guardrails.Check.PerMinute = ratePerMinute
		return nil
	case "false":
		d.Guardrails.Check.PerMinute = 0
		return nil
	}
	if whole(&d.Guardrails.Check.PerMinute, s, 1, 100_000) != nil {
		return wrong(s, "true, false or a number of executions in a minute")
	}
	return nil
}

// networks takes the list that is empty, and refuses any other.
func networks(_ *draft, s setting) error {
	if seq, ok := s.node.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "%s: %s is not available: code in the sandbox reaches no network", s.from, s.key).
		WithHint("remove it, or write []; code reaches what is elsewhere through the tools of servers")
}

// blocked reads what code and arguments must not hold.
func (d *draft) blocked(to *[]string, s setting, what string) error {
	if err := names(to, s, what); err != nil {
		return err
	}
	if _, err := guardrail.New(guardrail.Config{Patterns: d.Guardrails.Check.Patterns, Paths: d.Guardrails.Check.Paths}); err != nil {
		return fault.Wrap(fault.Invalid, err, "%s: %s", s.from, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

func (d *draft) hooks(s setting) error {
	if err := fillAll(&d.Guardrails.Check.Hooks, hookKeys, s); err != nil {
		return err
	}
	for i := range d.Guardrails.Check.Hooks {
		c := d.Guardrails.Check.Hooks[i].Command
		if len(c) > 0 && strings.ContainsAny(c[0], `/\`) { // else it is looked for on PATH
			c[0] = filepath.Clean(absolute(c[0], s.dir, map[string]string{"HOME": d.dirs.home}))
		}
	}
	if _, err := guardrail.New(guardrail.Config{Hooks: d.Guardrails.Check.Hooks}); err != nil {
		return fault.Wrap(fault.Invalid, err, "%s: %s", s.from, fault.Message(err))
	}
	return nil
}

var hookKeys = parsers[guardrail.HookConfig]{
	"on":      func(h *guardrail.HookConfig, n ast.Node) error { return scalar((*string)(&h.On), n) },
	"tool":    func(h *guardrail.HookConfig, n ast.Node) error { return scalar(&h.Tool, n) },
	"command": func(h *guardrail.HookConfig, n ast.Node) error { return list(&h.Command, n) },
	"timeout": func(h *guardrail.HookConfig, n ast.Node) error { return span(&h.Timeout, n) },
}
