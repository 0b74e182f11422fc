package config

import (
	"cmp"
	"math"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// done is the merge function of keys that are merged together with others.
func done(*Config, *Config, setting) bool { return true }

// forever is the duration of a zero that means no limit.
const forever = time.Duration(math.MaxInt64)

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

// never disables a flag that a project cannot enable.
func never(to *bool, on bool) bool {
	*to = *to && on
	return *to == on
}
