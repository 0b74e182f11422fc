// Package tenant names the owners of data. An ID exists only if it parsed, so
// that code below never asks again whether an id is safe to use as one path
// element. The package does no I/O.
package tenant

import (
	"regexp"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// ID names a tenant: 1 to 64 characters of a-z, 0-9, '-' and '_', starting
// with a letter or digit. It is one path element that means the same on every
// file system. The zero ID is no tenant.
type ID struct{ s string }

// Local is the one tenant of a daemon that serves one person over stdio.
var Local = ID{"local"}

var unusual = regexp.MustCompile(`[^a-z0-9_-]+`)

var valid = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Parse returns the ID that s spells.
func Parse(s string) (ID, error) {
	if !valid.MatchString(s) {
		e := fault.New(fault.Invalid,
			"tenant id %.80q is not allowed: use 1 to 64 of a-z, 0-9, '-' and '_', starting with a letter or digit", s)
		if near := strings.TrimLeft(unusual.ReplaceAllString(strings.ToLower(s), "-"), "-_"); valid.MatchString(near) {
			return ID{}, e.WithHint("write %s: ids are names of directories, and some systems do not tell capitals from small letters", near)
		}
		return ID{}, e
	}
	return ID{s}, nil
}

// String returns the id as it was parsed.
func (id ID) String() string { return id.s }

// IsZero reports whether id names no tenant.
func (id ID) IsZero() bool { return id.s == "" }

// MarshalText and UnmarshalText have an id be text in JSON and the like.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.s), nil }

// UnmarshalText takes what Parse does, and nothing for the zero ID.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id = ID{}
	if len(b) > 0 {
		*id, err = Parse(string(b))
	}
	return err
}
