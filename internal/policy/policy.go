// Package policy decides on calls of tools: may this one happen?
//
// A Policy is immutable but for what it counts, and safe for concurrent use. The
// package judges one call at a time by what it is given; it calls nothing, asks
// nobody and remembers no question.
package policy

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Verdict is what is to become of a call.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"   // a person has to say that it may be made
	Block Verdict = "block" // it is not made
)

// Call is a call as a policy sees it.
type Call struct {
	tool.Ref
	Tenant    tenant.ID
	Execution string          // whose code makes it; "" if none does
	Session   string          // of that; "" if there is none
	Hints     tool.Hints      // as far as they are believed
	Trusted   bool            // the server is
	Args      json.RawMessage // an object; checked against the schema, with values in place of tokens
}

// Decision is what a policy says of a call.
type Decision struct {
	Verdict Verdict
	Rule    string // that decided, as the operator knows it: its name, or its number from 1; "default" if none did
	Reason  string // for whoever asked for the call; never a value of it
}

// Config of a Policy.
type Config struct {
	// Default is for calls that no rule matches; "" means that tools marked
	// destructive are asked for, and all others allowed.
	Default Verdict
}

// Policy decides.
type Policy struct{ cfg Config }

// New returns a Policy.
func New(cfg Config) (*Policy, error) { return &Policy{cfg}, nil }

// Default is the policy before a rule is written.
func Default() *Policy { return &Policy{} }

// Decide says what is to become of a call.
func (p *Policy) Decide(_ context.Context, c Call) (Decision, error) {
	if p.cfg.Default != "" {
		return Decision{p.cfg.Default, "default", ""}, nil
	}
	if d := c.Hints.Destructive; d != nil && *d {
		return Decision{Ask, "default", "the server calls this tool destructive"}, nil
	}
	return Decision{Allow, "default", ""}, nil
}
