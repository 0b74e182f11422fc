package daemon

import (
	"cmp"
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// protection decides what code, calls and text may contain.
type protection struct {
	Privacy *redact.Rules  // redaction and flows
	Policy  *policy.Policy // decides on tool calls

	guard *guardrail.Guard // checks code and calls; nil if guardrails are off
}

// newProtection builds policy, detection and redaction. record receives transfers of
// values. isName reports the names of tools and servers; it is also called for lines of
// the log while the daemon is built.
func newProtection(cfg Config, record func(context.Context, redact.Transfer) error, isName func(string) bool) (p protection, err error) {
	if p.Policy, err = policy.New(cfg.Policy); err != nil {
		return p, err
	}
	scanner, err := detect.New(cfg.PII.Scan)
	if err != nil {
		return p, err
	}
	if p.guard, err = newGuard(cfg.Guardrails, scanner); err != nil {
		return p, err
	}
	p.Privacy, err = redact.New(redact.Config{
		Filter: newFilter(cfg.Guardrails), Mode: cmp.Or(redact.Mode(cfg.PII.Mode), redact.Egress), Scanner: scanner, Flows: cfg.PII.Flows, Project: cfg.PII.Project,
		Reveal: reveals(cfg.PII, cfg.Served), Record: record, AllAddresses: cfg.PII.Addresses == "all", IsToolName: isName,
	})
	return p, err
}

// newGuard builds the guardrails; nil if they are off.
func newGuard(g config.Guardrails, scanner *detect.Scanner) (*guardrail.Guard, error) {
	if g.Off {
		return nil, nil
	}
	g.Check.Scanner, g.Check.SkipOutput = scanner, g.Unfiltered
	return guardrail.New(g.Check)
}

// newFilter returns the last filter of text for models. A nil Filter filters the minimum.
func newFilter(g config.Guardrails) *guardrail.Filter {
	if g.Off || g.Unfiltered {
		return nil
	}
	return guardrail.NewFilter(true, !g.Loading)
}

// reveals reports whether restore_pii may show values: by default only to a client of
// the person who runs the daemon.
func reveals(p config.PII, served bool) bool {
	return p.Restore == "allow" || p.Restore != "deny" && !served
}
