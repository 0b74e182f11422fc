package daemon

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// state is the part of a running daemon that a configuration determines. It is immutable: Reload replaces it
// as a whole, and executions keep what they began with.
type state struct {
	number  uint64 // of the configuration in this process
	config  *config.Config
	policy  *policy.Policy   // decides on tool calls
	guard   *guardrail.Guard // checks code and calls; nil if guardrails are off
	privacy *tenantRules     // redaction and flows
}

// live holds the state in force.
type live struct{ atomic.Pointer[state] }

// newState returns the state of a configuration, which continues the counts of the state in force.
func (d reloader) newState(c *config.Config) (*state, error) {
	s := &state{config: c}
	var err error
	if s.policy, err = policy.New(c.Policy); err != nil {
		return nil, err
	}
	scanner, err := detect.New(c.PII.Scan)
	if err != nil {
		return nil, err
	}
	if s.guard, err = newGuard(c.Guardrails, scanner); err != nil {
		return nil, err
	}
	s.privacy = &tenantRules{
		settings: func(id tenant.ID) *config.Config {
			if id.IsZero() { // data may not be open yet
				return c
			}
			return d.data.settingsIn(c, id)
		},
		build: func(pii config.PII) (*redact.Rules, error) {
			scanner, err := detect.New(pii.Scan)
			if err != nil {
				return nil, err
			}
			return d.newRules(c.Guardrails, pii, scanner)
		},
	}
	own, err := d.newRules(c.Guardrails, c.PII, scanner)
	if err != nil {
		return nil, err
	}
	s.privacy.known = map[string]*redact.Rules{textOf(c.PII): own}
	if last := d.live.Load(); last != nil {
		s.number = last.number + 1
		s.policy.KeepCounts(last.policy)
		s.guard.KeepCounts(last.guard)
	}
	return s, nil
}

// now returns the configuration in force.
func (d *Daemon) now() *config.Config { return d.live.Load().config }

// Policy returns the policy in force.
func (d *Daemon) Policy() *policy.Policy { return d.live.Load().policy }

func (d *Daemon) guard() *guardrail.Guard { return d.live.Load().guard }

// newRules builds redaction.
func (d reloader) newRules(g config.Guardrails, pii config.PII, scanner *detect.Scanner) (*redact.Rules, error) {
	return redact.New(redact.Config{
		Filter:       newFilter(g),
		Mode:         cmp.Or(redact.Mode(pii.Mode), redact.Egress),
		Scanner:      scanner,
		Flows:        pii.Flows,
		Project:      pii.Project,
		Exceptions:   pii.Except,
		Reveal:       reveals(pii, d.cfg.Served),
		AllAddresses: pii.Addresses == "all",
		Turn: func(ctx context.Context, id tenant.ID, bytes int) (func(), error) {
			return d.memory.Turn(ctx, id.String(), int64(bytes))
		},
		Record:     func(ctx context.Context, t redact.Transfer) error { return d.data.recordTransfer(ctx, t) },
		IsToolName: func(text string) bool { return d.Servers != nil && d.Servers.Catalog.Now().IsName(text) },
	})
}

// textOf returns a text that is equal for equal settings.
func textOf(pii config.PII) string { return fmt.Sprintf("%+v", pii) }

// tenantRules builds the privacy rules of tenants with settings of their own, once for each
// different configuration.
type tenantRules struct {
	settings func(tenant.ID) *config.Config
	build    func(config.PII) (*redact.Rules, error)

	configs sync.Map // *config.Config -> *redact.Rules
	mu      sync.Mutex
	known   map[string]*redact.Rules // by textOf
}

// of returns the rules of a tenant. Load has checked them, so that an error is a fault of
// Sandpiper.
func (t *tenantRules) of(id tenant.ID) *redact.Rules {
	r, err := t.rules(t.settings(id))
	if err != nil {
		panic(err)
	}
	return r
}

// rules returns the rules of a configuration.
func (t *tenantRules) rules(c *config.Config) (*redact.Rules, error) {
	if r, ok := t.configs.Load(c); ok {
		return r.(*redact.Rules), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := textOf(c.PII)
	r := t.known[text]
	if r == nil {
		var err error
		if r, err = t.build(c.PII); err != nil {
			return nil, err
		}
		t.known[text] = r
	}
	t.configs.Store(c, r)
	return r, nil
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
