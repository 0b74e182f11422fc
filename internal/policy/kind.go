package policy

import (
	"math"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Sandbox is a kind of sandbox that code runs in. The zero value is none.
type Sandbox struct {
	Name     string // as in the configuration
	Strength int    // code in a stronger one may do what requires a weaker one, although they may isolate differently
}

var (
	// Process is the sandbox of the core, the weakest: a process on the host's kernel.
	Process = Sandbox{"process", 1}
	// NoCode is for calls that no code makes: those of a client, or of an approved plan.
	NoCode = Sandbox{"none", math.MaxInt}
)

// String returns the name.
func (s Sandbox) String() string { return s.Name }

// MarshalText returns the name.
func (s Sandbox) MarshalText() ([]byte, error) { return []byte(s.Name), nil }

// Satisfies reports whether code in s may do what requires another sandbox; the zero one requires none, and
// satisfies no other.
func (s Sandbox) Satisfies(required Sandbox) bool { return s.Strength >= required.Strength }

// sandboxNamed returns the sandbox of all that a rule names; "" is none.
func sandboxNamed(name string, all []Sandbox) (Sandbox, error) {
	if name == "" {
		return Sandbox{}, nil
	}
	var names []string
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return Sandbox{}, fault.New(fault.Invalid, "requires the sandbox %.40q, which this program does not have", name)
	}
	return Sandbox{}, fault.New(fault.Invalid, "requires the sandbox %.40q; it must be %s", name, strings.Join(names, " or "))
}
