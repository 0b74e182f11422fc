package redact

import (
	"path"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Decision on values that would be sent to a tool.
type Decision string

const (
	Allow Decision = "allow"
	Deny  Decision = "deny"
)

// Flow is a rule for values that are sent to tools.
type Flow struct {
	Types    []detect.Type `key:"types"` // none: every type
	To       string        `key:"to"`    // "server.tool", where * matches any letters; "": every tool
	Args     []string      `key:"args"`  // names of arguments; none: all
	Decision Decision      `key:"decision"`
}

func (f Flow) validate() error {
	if f.Decision != Allow && f.Decision != Deny {
		return fault.New(fault.Invalid, "decision %.40q is not valid: use allow or deny", f.Decision)
	}
	return checkPattern(f.To)
}

func (f Flow) matches(ref tool.Ref, arg string, t detect.Type) bool {
	if len(f.Types) > 0 && !slices.Contains(f.Types, t) || len(f.Args) > 0 && !slices.Contains(f.Args, arg) {
		return false
	}
	return matchesTool(f.To, ref)
}

// matchesTool reports whether a pattern such as "crm.*" matches a tool; "" matches every tool.
func matchesTool(pattern string, ref tool.Ref) bool {
	// Names of tools may contain slashes, which * of a pattern does not match.
	match, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(ref.String(), "/", "\x00"))
	return pattern == "" || err == nil && match
}

// checkPattern reports whether a pattern for tools is valid.
func checkPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fault.New(fault.Invalid, "pattern %.80q is not valid: write server.tool, where * matches any letters", pattern)
	}
	return nil
}

// load identifies values in one argument of a call.
type load struct {
	arg     string
	typ     detect.Type
	asToken bool // the argument contains them as tokens
}

// allowedBy returns the decision of the first flow that matches, or otherwise.
func allowedBy(flows []Flow, ref tool.Ref, c load, otherwise bool) bool {
	for _, f := range flows {
		if f.matches(ref, c.arg, c.typ) {
			return f.Decision == Allow
		}
	}
	return otherwise
}
