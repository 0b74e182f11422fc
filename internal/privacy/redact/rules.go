// Package redact is the one exit toward a model, and the way back. Every text,
// image and progress message that a face sends to a model is a Sealed, and only
// this package makes one; the faces accept nothing else.
//
// On the way out what is private becomes tokens of the tenant's vault. On the way
// back tokens that the model writes stand for their values: in code, variables,
// files and arguments of tools, there by the rules of Flow. Text that only looks
// like a token is marked on its way in, as foreign, and never restored.
//
// In every mode a Filter has the last word on what leaves: what a client would load
// of its own accord, or a terminal obey, is taken apart, and what reads like
// instructions to a model is told to be data.
//
// The words: Rules are what holds for everybody; an Exit is that for one tenant
// and session; a passage is one text on its way over the border. The zero Exit
// refuses everything; mode Off passes everything and has to be chosen in so many
// words. Rules and Exits are safe for concurrent use. The package finds nothing
// itself (pii does), keeps nothing (the vault does), and does not look into
// pictures.
package redact

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Mode says where values are replaced.
type Mode string

const (
	Off    Mode = "off"    // nowhere
	Egress Mode = "egress" // toward the model; code sees values
	Strict Mode = "strict" // toward code as well, which sees tokens of its own
)

// Modes are all there are.
var Modes = []Mode{Off, Egress, Strict}

// Filter makes text safe for a client: so that no client loads or obeys it.
type Filter interface {
	// Text returns text, which came from a tool or server, "" if that is not known.
	// JSON stays JSON.
	Apply(from, text string) string
}

// Config of Rules.
type Config struct {
	Mode    Mode            // required
	Scanner *detect.Scanner // what is private; required but in mode Off
	Flows   []Flow          // which values tools get; the first that fits decides
	Project []Flow          // of a project's file; nil means none. They refuse what Flows allow, and allow nothing that Flows refuse
	Reveal  bool            // a model may be shown values that it asks for

	AllAddresses bool                   // IP addresses of networks that are not public are replaced too
	IsToolName   func(name string) bool // tells names of tools and servers, which are no person's; nil means that there are none
	// Filter is applied last to all text for a model, in every mode; nil changes nothing.
	Filter Filter
	// Record keeps that values were restored, or went to a tool. What it returned
	// nil for is on disk if values were restored. Nil keeps nothing.
	Record func(context.Context, Transfer) error
}

// Crossing says that values went somewhere; it never holds one.
type Transfer struct {
	Tenant      tenant.ID
	Session     string
	Execution   string
	Destination string         // "server.tool", or one of the constants below
	Types       map[string]int // how many of each type
	Tokens      []string       // those that were restored; none if code had the values
	Denied      bool           // it was refused
}

// Destinations that are no tools.
const (
	ToCode   = "code"
	ToFile   = "file"
	ToServer = "server" // for something that is no tool
	ToModel  = "model"
	ToPerson = "person" // at the command line, or in a form of the client
)

// Rules hold for all tenants.
type Rules struct{ cfg Config }

// New checks cfg and returns Rules.
func New(cfg Config) (*Rules, error) {
	if !slices.Contains(Modes, cfg.Mode) {
		return nil, fault.New(fault.Invalid, "the mode of privacy is %.40q: use off, egress or strict", cfg.Mode)
	}
	if cfg.Mode != Off && cfg.Scanner == nil {
		return nil, errors.New("egress: a mode that replaces values needs a scanner")
	}
	for i, f := range slices.Concat(cfg.Flows, cfg.Project) {
		if err := f.validate(); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "flow %d: %s", i+1, fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
	}
	return &Rules{cfg}, nil
}

// Mode is that of the Config.
func (r *Rules) Mode() Mode { return r.cfg.Mode }

// Owner is whom an Exit is for.
type Owner struct {
	Tenant     tenant.ID
	Vault      *vault.Vault // nil has every value withheld
	Session    string       // "" without one
	Execution  string       // "" outside of one
	Local      *LocalTokens // of the interpreter that runs, in mode Strict; else nil
	ModelInput ModelInput   // values that the model wrote in the call that is answered: they are not replaced, except in mode Strict
}

// For returns the exit of a tenant. That of the zero Owner is for texts that are
// nobody's: what is private in them is withheld.
func (r *Rules) For(o Owner) *Exit { return &Exit{rules: r, owner: o} }

// Exit is the border between a tenant's data and a model.
type Exit struct {
	rules   *Rules
	owner   Owner
	pending sync.WaitGroup // texts that are still read for what they hold
}

// Wait waits until all that was received is known.
func (e *Exit) Wait() { e.pending.Wait() }

func (e *Exit) off() bool { return e.rules.cfg.Mode == Off }

// Strict reports whether code sees tokens only.
func (e *Exit) Strict() bool { return e.rules.cfg.Mode == Strict }

func (e *Exit) record(ctx context.Context, c Transfer) error {
	if e.rules.cfg.Record == nil {
		return nil
	}
	c.Tenant, c.Session, c.Execution = e.owner.Tenant, e.owner.Session, e.owner.Execution
	return e.rules.cfg.Record(ctx, c)
}
