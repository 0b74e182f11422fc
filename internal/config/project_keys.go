package config

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// merge applies one key of a project if it is stricter or equal, and reports whether it
// was.
type merge func(c, p *Config, s setting) bool

// mergeOf returns the merge function of a key; nil means that a project cannot set it.
func mergeOf(key string) merge {
	if m, ok := projectKeys[key]; ok {
		return m
	}
	if name, ok := strings.CutPrefix(key, "pii.ttl."); ok {
		return func(c, p *Config, _ setting) bool { return c.keptAtMost(name, p) }
	}
	if strings.HasPrefix(key, "pii.keys.") {
		return done
	}
	return nil
}

// done is the merge function of keys that are merged together with others.
func done(*Config, *Config, setting) bool { return true }

// forever is the duration of a zero that means no limit.
const forever = time.Duration(math.MaxInt64)

// projectKeys are the keys that a project may set. Other keys have no effect.
var projectKeys = map[string]merge{
	"servers": done, "catalog": done, "policy.rules": done, "policy.budgets": done, "policy.default": done,
	"pii.flows": done, "pii.patterns": done, "log.file": done,
	"log.level": func(c, p *Config, _ setting) bool {
		c.Log.Level = cmp.Or(c.Log.Level, p.Log.Level)
		return true
	},

	"sandbox.backend": func(c, p *Config, s setting) bool { // sandbox_type of a former system sets it too
		// The operator's accel: tcg, for tests, lets a project choose an emulated processor, but not in place of gvisor.
		emulated := p.Sandbox() == policy.MicroVM && c.MicroVM.Accel == "tcg" && c.Sandbox() != policy.Process
		if p.Sandbox() != c.Sandbox() && (emulated || !p.Sandbox().Satisfies(c.Sandbox())) {
			return false
		}
		if c.Backend = p.Backend; s.seed != "" {
			c.MicroVM.SeedSetting = s.from + ": " + s.seed
		}
		return true
	},
	"sandbox.timeout":               func(c, p *Config, _ setting) bool { return atMost(&c.Limits.Timeout, 0, p.Limits.Timeout) },
	"sandbox.max_timeout":           lowerTime,
	"guardrails.max_execution_time": lowerTime,
	"sandbox.memory_mb":             func(c, p *Config, _ setting) bool { return atMost(&c.Limits.MemoryMB, 0, p.Limits.MemoryMB) },
	"sandbox.max_memory_mb":         lowerMemory,
	"guardrails.max_memory_mb":      lowerMemory,
	"sandbox.concurrency": func(c, p *Config, _ setting) bool {
		return atMost(&c.Admit.Concurrent, c.Admit.WithDefaults().Concurrent, p.Admit.Concurrent)
	},
	"sandbox.tenant_concurrency": func(c, p *Config, _ setting) bool {
		return atMost(&c.Admit.PerOwner, c.Admit.WithDefaults().PerOwner, p.Admit.PerOwner)
	},
	"limits.memory_mb": func(c, p *Config, _ setting) bool { return atMost(&c.MemoryMB, memory.PerOwner>>20, p.MemoryMB) },
	"sandbox.queue": func(c, p *Config, _ setting) bool {
		c.Admit.Queued = c.Admit.WithDefaults().Queued
		if p.Admit.Queued > max(c.Admit.Queued, 0) {
			return false
		}
		c.Admit.Queued = p.Admit.Queued
		return true
	},
	"sandbox.namespaces": func(c, p *Config, _ setting) bool {
		return stricterOf(&c.Namespaces, p.Namespaces, "shared", "own")
	},
	"sandbox.restricted":    restrict,
	"guardrails.restricted": restrict,
	"sessions.idle": func(c, p *Config, _ setting) bool {
		return atMost(&c.Sessions.Idle, c.Sessions.WithDefaults().Idle, p.Sessions.Idle)
	},
	"sessions.per_tenant": func(c, p *Config, _ setting) bool {
		return atMost(&c.Sessions.PerTenant, c.Sessions.WithDefaults().PerTenant, p.Sessions.PerTenant)
	},
	"sessions.living": func(c, p *Config, _ setting) bool {
		return atMost(&c.Sessions.Live, c.Sessions.WithDefaults().Live, p.Sessions.Live)
	},
	"background.keep": func(c, p *Config, _ setting) bool {
		return atMost(&c.Background.Keep, 24*time.Hour, p.Background.Keep)
	},
	"background.timeout": func(c, p *Config, _ setting) bool {
		return atMost(&c.Background.Timeout, time.Hour, p.Background.Timeout)
	},
	"background.running": func(c, p *Config, _ setting) bool {
		return atMost(&c.Background.Running, max(1, c.Admit.WithDefaults().Concurrent/2), p.Background.Running)
	},
	"workspace.max_mb": func(c, p *Config, _ setting) bool {
		return atMost(&c.Workspace.Quota.Bytes, math.MaxInt64, p.Workspace.Quota.Bytes)
	},
	"workspace.max_files": func(c, p *Config, _ setting) bool {
		return atMost(&c.Workspace.Quota.Files, math.MaxInt64, p.Workspace.Quota.Files)
	},
	"approvals.timeout": func(c, p *Config, _ setting) bool {
		return atMost(&c.Approvals.Timeout, 24*time.Hour, p.Approvals.Timeout)
	},
	"approvals.via": func(c, p *Config, _ setting) bool {
		if now := cmp.Or(c.Approvals.Via, approval.ViaBoth); now != approval.ViaBoth && p.Approvals.Via != now {
			return false
		}
		c.Approvals.Via = p.Approvals.Via
		return true
	},

	"pii.mode": func(c, p *Config, _ setting) bool {
		return stricterOf(&c.PII.Mode, p.PII.Mode, string(redact.Off), string(redact.Egress), string(redact.Strict))
	},
	"pii.restore": func(c, p *Config, _ setting) bool {
		return stricterOf(&c.PII.Restore, p.PII.Restore, "allow", "auto", "deny")
	},
	"pii.names": func(c, p *Config, _ setting) bool {
		return stricterOf((*string)(&c.PII.Scan.Names), string(p.PII.Scan.Names), string(detect.Never), string(detect.Evidence), string(detect.Always))
	},
	"pii.prose_names": func(c, p *Config, _ setting) bool { return once(&c.PII.Scan.Prose, p.PII.Scan.Prose) },
	"pii.addresses": func(c, p *Config, _ setting) bool {
		return stricterOf(&c.PII.Addresses, p.PII.Addresses, "public", "all")
	},
	"pii.tokens":           func(c, p *Config, _ setting) bool { return atMost(&c.PII.Tokens, 500_000, p.PII.Tokens) },
	"pii.tokens_per_hour":  func(c, p *Config, _ setting) bool { return atMost(&c.PII.New, 50_000, p.PII.New) },
	"pii.queries_per_hour": func(c, p *Config, _ setting) bool { return atMost(&c.PII.Asked, 10_000, p.PII.Asked) },

	"guardrails.enabled": func(c, p *Config, _ setting) bool { return never(&c.Guardrails.Off, p.Guardrails.Off) },
	"guardrails.security_checks": func(c, p *Config, _ setting) bool {
		return never(&c.Guardrails.Check.SkipInput, p.Guardrails.Check.SkipInput)
	},
	"guardrails.content_filtering":  func(c, p *Config, _ setting) bool { return never(&c.Guardrails.Unfiltered, p.Guardrails.Unfiltered) },
	"guardrails.neutralize":         func(c, p *Config, _ setting) bool { return never(&c.Guardrails.Loading, p.Guardrails.Loading) },
	"guardrails.strict_mode":        func(c, p *Config, _ setting) bool { return once(&c.Guardrails.Check.Strict, p.Guardrails.Check.Strict) },
	"guardrails.privacy_protection": protect,
	"guardrails.pii_detection":      protect,
	"guardrails.tokenization":       protect,
	"guardrails.allowed_networks":   done, // the list is empty
	"guardrails.rate_limiting": func(c, p *Config, _ setting) bool {
		return atMost(&c.Guardrails.Check.PerMinute, math.MaxInt, p.Guardrails.Check.PerMinute)
	},
	"guardrails.max_code_bytes": func(c, p *Config, _ setting) bool {
		return atMost(&c.Guardrails.Check.MaxCode, math.MaxInt, p.Guardrails.Check.MaxCode)
	},
	"guardrails.max_vars_bytes": func(c, p *Config, _ setting) bool {
		return atMost(&c.Guardrails.Check.MaxVars, math.MaxInt, p.Guardrails.Check.MaxVars)
	},
	"guardrails.max_output_bytes": func(c, p *Config, _ setting) bool {
		return atMost(&c.Guardrails.MaxOutput, 64<<20, p.Guardrails.MaxOutput)
	},
	"guardrails.blocked_patterns": func(c, p *Config, _ setting) bool {
		c.Guardrails.Check.Patterns = slices.Concat(c.Guardrails.Check.Patterns, p.Guardrails.Check.Patterns)
		return true
	},
	"guardrails.blocked_paths": func(c, p *Config, _ setting) bool {
		c.Guardrails.Check.Paths = slices.Concat(c.Guardrails.Check.Paths, p.Guardrails.Check.Paths)
		return true
	},
	"guardrails.hooks": func(c, p *Config, _ setting) bool {
		c.Guardrails.Check.Hooks = slices.Concat(c.Guardrails.Check.Hooks, p.Guardrails.Check.Hooks)
		return true
	},
}

func lowerTime(c, p *Config, _ setting) bool {
	return atMost(&c.Limits.MaxTimeout, 0, p.Limits.MaxTimeout)
}

func lowerMemory(c, p *Config, _ setting) bool {
	return atMost(&c.Limits.MaxMemoryMB, 0, p.Limits.MaxMemoryMB)
}

func restrict(c, p *Config, _ setting) bool { return once(&c.Restricted, p.Restricted) }

// protect is the merge function of keys that enable privacy.
func protect(c, _ *Config, s setting) bool {
	if s.text == "true" && c.PII.Mode == string(redact.Off) {
		c.PII.Mode = string(redact.Egress)
	}
	return true // false causes a warning elsewhere
}

// atMost lowers a limit. 0 means the default usual.
func atMost[T cmp.Ordered](to *T, usual, limit T) bool {
	var zero T
	now := *to
	if now == zero {
		now = usual
	}
	if limit == zero {
		limit = usual
	}
	if limit > now {
		return false
	}
	*to = limit
	return true
}

// once enables a flag that a project cannot disable.
func once(to *bool, on bool) bool {
	*to = *to || on
	return *to == on
}

// never disables a flag that a project cannot enable.
func never(to *bool, on bool) bool {
	*to = *to && on
	return *to == on
}

// stricterOf returns the stricter of two values; order starts with the loosest.
func stricterOf(to *string, word string, order ...string) bool {
	if slices.Index(order, word) < slices.Index(order, *to) {
		return false
	}
	*to = word
	return true
}

// keptAtMost shortens the lifetime of values of a type.
func (c *Config) keptAtMost(name string, p *Config) bool {
	t := detect.Type(name)
	if name == "default" {
		t = ""
	}
	now, own := c.PII.TTL[t]
	if !own {
		now = c.PII.TTL[""]
	}
	if !atMost(&now, forever, p.PII.TTL[t]) {
		return false
	}
	if now == forever {
		now = 0
	}
	if c.PII.TTL == nil {
		c.PII.TTL = map[detect.Type]time.Duration{}
	}
	c.PII.TTL[t] = now
	return true
}
