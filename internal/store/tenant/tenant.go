// Package tenant defines the IDs of tenants, the owners of data and quotas. An ID
// can only be created by Parse, so it is always safe to use as one path element.
// IDs are values; the package does no I/O.
package tenant

import (
	"regexp"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// ID identifies a tenant: 1 to 64 characters of a-z, 0-9, '-' and '_', starting
// with a letter or digit. It is one path element that is the same on every file
// system, also on those that ignore case. The zero ID identifies no tenant.
type ID struct{ s string }

// Local is the only tenant of a daemon that serves one user over stdio.
var Local = ID{"local"}

var disallowed = regexp.MustCompile(`[^a-z0-9_-]+`)

var valid = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Parse returns the ID with the text s. The hint of its error suggests a valid ID if
// one can be derived from s.
func Parse(s string) (ID, error) {
	if !valid.MatchString(s) {
		e := fault.New(fault.Invalid,
			"tenant id %.80q is not allowed: use 1 to 64 of a-z, 0-9, '-' and '_', starting with a letter or digit", s)
		if suggestion := strings.TrimLeft(disallowed.ReplaceAllString(strings.ToLower(s), "-"), "-_"); valid.MatchString(suggestion) {
			return ID{}, e.WithHint("write %s: ids are directory names, and some file systems ignore case", suggestion)
		}
		return ID{}, e
	}
	return ID{s}, nil
}

// String returns the text of id.
func (id ID) String() string { return id.s }

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id.s == "" }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.s), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Empty text is the zero ID.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id = ID{}
	if len(b) > 0 {
		*id, err = Parse(string(b))
	}
	return err
}
