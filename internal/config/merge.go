package config

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// done is the merge function of keys that are merged together with others.
func done(*Config, *Config, setting) bool { return true }

// forever is the duration of a zero that means no limit.
const forever = time.Duration(math.MaxInt64)

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
