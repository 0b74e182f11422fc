// Package redact is the only way for text to reach a model, and the way back. Every
// text, image and progress message that is sent to a model is a Redacted; only
// this package creates one, and senders accept nothing else.
//
// Outbound, personal data and secrets are replaced by tokens of the tenant's vault.
// Inbound, tokens that the model writes are restored to their values: in code,
// variables, files and tool arguments, the last subject to the Flow rules. Text from a
// server that has the syntax of a token is marked as foreign and never restored.
//
// In every mode a Filter is applied last to outbound text: it neutralizes what a
// client would load or a terminal would interpret, and labels text that reads like
// instructions to a model as data.
//
// Terms: Rules are the settings of the process; a Gate applies them for one tenant
// and session. The Gate redacts what is sent to a model; its Ingester prepares what
// servers return, its Restorer restores what a model wrote, and its Tokens convert text
// on request. A redaction is the processing of one text. The zero Gate and its zero parts
// refuse everything.
// Mode Off passes everything and must be set explicitly. Rules and Gates are safe for
// concurrent use. The package detects nothing itself (see detect), stores nothing (see
// vault), and does not inspect images.
package redact

import (
	"context"
	"errors"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Mode defines where values are replaced.
type Mode string

const (
	Off    Mode = "off"    // nowhere
	Egress Mode = "egress" // toward the model; code sees values
	Strict Mode = "strict" // toward the model, and toward code, which sees tokens of its own
)

// Modes lists all modes.
var Modes = []Mode{Off, Egress, Strict}

// Filter makes text safe to show: a client that displays it loads and executes
// nothing.
type Filter interface {
	// Count returns the filtered text, and how many parts of it were changed so that nothing
	// is loaded. from names the tools or servers that the text came from, "" if unknown. JSON
	// stays JSON.
	Count(from, text string) (filtered string, neutralized int)
}

// Config of Rules.
type Config struct {
	Mode       Mode            // required
	Scanner    *detect.Scanner // detects personal data and secrets; required except in mode Off
	Flows      []Flow          // values that tools may receive; the first match decides
	Project    []Flow          // flows of a project file, nil for none; they can only deny what Flows allow
	Exceptions []Exception     // values that are detected and not private
	Reveal     bool            // whether a model may see values on request

	AllAddresses bool                   // also replace IP addresses that are not public
	IsToolName   func(name string) bool // reports names of tools and servers, which are not personal data; nil: there are none
	// Filter is applied last to all text for a model, in every mode; nil leaves text
	// unchanged.
	Filter Filter
	// Turn waits for the turn of a tenant to process a large text, for which bytes of memory are
	// used until done is called; nil: there is no wait. Its caller waits for nothing else then.
	Turn func(ctx context.Context, id tenant.ID, bytes int) (done func(), err error)
	// Record writes a transfer to the audit log. If values were restored, they are
	// returned only after Record has returned nil, when the record is on disk. Nil records
	// nothing.
	Record func(context.Context, Transfer) error
}

// Rules are the settings of one or several tenants.
type Rules struct {
	cfg Config
	of  func(tenant.ID) *Rules // nil if these apply to all tenants

	allowed allowedValues
}

// Select returns Rules that apply those of a tenant, or of the zero ID, at the time of each For
// and Of.
func Select(of func(tenant.ID) *Rules) *Rules { return &Rules{of: of} }

// New validates cfg and returns Rules.
func New(cfg Config) (*Rules, error) {
	if !slices.Contains(Modes, cfg.Mode) {
		return nil, fault.New(fault.Invalid, "privacy mode %.40q is not valid: use off, egress or strict", cfg.Mode)
	}
	if cfg.Mode != Off && cfg.Scanner == nil {
		return nil, errors.New("redact: mode requires a scanner")
	}
	for i, f := range slices.Concat(cfg.Flows, cfg.Project) {
		if err := f.validate(); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "flow %d: %s", i+1, fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
	}
	for i, e := range cfg.Exceptions {
		if err := e.Validate(); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "exception %d: %s", i+1, fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
	}
	return &Rules{cfg: cfg}, nil
}

// Of returns the rules of a tenant.
func (r *Rules) Of(id tenant.ID) *Rules {
	if r.of == nil {
		return r
	}
	return r.of(id)
}

// Mode returns the configured mode.
func (r *Rules) Mode() Mode { return r.cfg.Mode }

// isExempt reports whether a value is not personal: an IP address of a network that is
// not public, or the name of a tool or server.
func (r *Rules) isExempt(t detect.Type, value string) bool {
	switch t {
	case detect.IPAddress:
		return !r.cfg.AllAddresses && !isPublic(value)
	case detect.Name:
		return r.cfg.IsToolName != nil && r.cfg.IsToolName(value)
	}
	return false
}

// allows decides about values of one type in one argument. Without a matching rule,
// values that code or the model has may go to every tool, and tokens may in mode
// Egress only.
func (r *Rules) allows(ref tool.Ref, c load) bool {
	otherwise := !c.asToken || r.cfg.Mode != Strict
	return allowedBy(r.cfg.Flows, ref, c, otherwise) && (r.cfg.Project == nil || allowedBy(r.cfg.Project, ref, c, otherwise))
}
