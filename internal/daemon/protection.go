package daemon

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// protection decides what code, calls and text may contain.
type protection struct {
	Privacy *redact.Rules  // redaction and flows
	Policy  *policy.Policy // decides on tool calls

	guard *guardrail.Guard // checks code and calls; nil if guardrails are off
}

// newProtection builds policy, detection and redaction. settings returns the configuration of
// a tenant. record receives transfers of values. isName reports the names of tools and servers; it is also called for lines of
// the log while the daemon is built.
func newProtection(cfg Config, settings func(tenant.ID) *config.Config, record func(context.Context, redact.Transfer) error, isName func(string) bool) (p protection, err error) {
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
	rules := func(pii config.PII, scanner *detect.Scanner, of func(tenant.ID) *redact.Rules) (*redact.Rules, error) {
		return redact.New(redact.Config{
			Filter: newFilter(cfg.Guardrails), Mode: cmp.Or(redact.Mode(pii.Mode), redact.Egress), Scanner: scanner, Flows: pii.Flows, Project: pii.Project,
			Reveal: reveals(pii, cfg.Served), Record: record, AllAddresses: pii.Addresses == "all", IsToolName: isName, Of: of,
		})
	}
	own := &tenantRules{settings: settings, known: map[string]*redact.Rules{}, build: func(pii config.PII) (*redact.Rules, error) {
		scanner, err := detect.New(pii.Scan)
		if err != nil {
			return nil, err
		}
		return rules(pii, scanner, nil)
	}}
	p.Privacy, err = rules(cfg.PII, scanner, own.of)
	own.known[fmt.Sprintf("%+v", cfg.PII)] = p.Privacy
	return p, err
}

// tenantRules builds the privacy rules of tenants with settings of their own, once for each
// different configuration.
type tenantRules struct {
	settings func(tenant.ID) *config.Config
	build    func(config.PII) (*redact.Rules, error)

	configs sync.Map // *config.Config -> *redact.Rules
	mu      sync.Mutex
	known   map[string]*redact.Rules // by the text of the configuration
}

// of returns the rules of a tenant. Load has checked them, so that an error is a fault of
// Sandpiper.
func (t *tenantRules) of(id tenant.ID) *redact.Rules {
	c := t.settings(id)
	if r, ok := t.configs.Load(c); ok {
		return r.(*redact.Rules)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprintf("%+v", c.PII)
	r := t.known[text]
	if r == nil {
		var err error
		if r, err = t.build(c.PII); err != nil {
			panic(err)
		}
		t.known[text] = r
	}
	t.configs.Store(c, r)
	return r
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
