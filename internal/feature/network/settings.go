package network

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Settings are the keys of the feature.
type Settings struct {
	Allow *Rules  `key:"network.allow,tenant"` // nil allows nothing
	Any   anyHost `key:"sandbox.allow_network_access"`

	offered bool // some tenant may send requests
}

// SetNode implements section.NodeSetter. An empty list allows nothing.
func (r *Rules) SetNode(key string, n ast.Node, from section.Source) error {
	if seq, ok := n.(*ast.SequenceNode); ok {
		for _, n := range seq.Values {
			if host, ok := n.(*ast.StringNode); ok {
				return fault.New(fault.Invalid, "contains %.60q; write {host: %[1]s}", host.Value)
			}
		}
	}
	var all []Rule
	if err := section.Set(&all, key, n, from); err != nil {
		return err
	}
	return r.set(key, all)
}

func (r *Rules) set(key string, all []Rule) error {
	rules, err := NewRules(all)
	if err != nil {
		return fault.New(fault.Invalid, "%s: %s", key, err)
	}
	*r = *rules
	return nil
}

// anyHost is the value of a key of the seed systems: true allows every public host, a list its hosts.
type anyHost struct{ rules Rules }

// SetNode implements section.NodeSetter.
func (a *anyHost) SetNode(key string, n ast.Node, from section.Source) error {
	var hosts []string
	switch n := n.(type) {
	case *ast.BoolNode:
		if n.Value {
			hosts = []string{"*"}
		}
	case *ast.SequenceNode:
		if err := section.Set(&hosts, key, n, from); err != nil {
			return errAnyHost
		}
	default:
		hosts = []string{""}
		if err := section.Set(&hosts[0], key, n, from); err != nil {
			return errAnyHost
		}
	}
	var all []Rule
	for _, h := range hosts {
		for _, scheme := range []string{"https", "http"} {
			all = append(all, Rule{Host: h, Scheme: scheme, Methods: []string{"*"}})
		}
	}
	return a.rules.set(key, all)
}

var errAnyHost = fault.New(fault.Invalid, "must be false, true or a list of hosts")

// Complete makes sandbox.allow_network_access effective, unless network.allow is given.
func (s *Settings) Complete(g config.Given) error {
	const key = "sandbox.allow_network_access"
	if g.From("network.allow") == "" && len(s.Any.rules.all) > 0 {
		s.Allow = &s.Any.rules
		what := "these hosts"
		if slices.Contains(s.Allow.Hosts(), "*") {
			what = "every public host"
		}
		g.Warn(g.From(key) + ": " + key + " lets code send requests to " + what +
			", with every method and all data that it has; list hosts, methods and paths in network.allow instead")
	}
	s.offered = len(s.Allow.Hosts()) > 0 || g.OfTenants("network")
	return nil
}

// Loaded adds the server of requests if some tenant may send them, and hides it from others.
func (s *Settings) Loaded(c *config.Config) error {
	if !s.offered {
		return nil
	}
	for _, o := range c.Servers {
		if tool.ModuleNames([]string{o.Name})[o.Name] == ServerName {
			return fault.New(fault.Invalid, "server %s has the name of the server that network.allow adds", o.Name).
				WithHint("give it another name, such as my_network")
		}
	}
	c.Servers = append(c.Servers, config.Server{
		Name:        ServerName,
		Category:    "web",
		API:         api(rulesOf(c)),
		Trusted:     true,
		Timeout:     5 * time.Minute,
		Concurrency: 64,
	})
	s.OfTenant(c)
	return nil
}

// api returns the server of requests.
func api(r *Rules) *config.API {
	return &config.API{
		Kind:     r,
		Type:     "requests to " + strings.Join(r.Hosts(), ", "),
		Identity: []any{"", nil, "", "", "", ServerName}, // of a server without a command and a URL
		Own:      true,
	}
}

// OfTenant hides the server from a tenant that may send no requests.
func (s *Settings) OfTenant(c *config.Config) {
	if s.offered && len(s.Allow.Hosts()) == 0 {
		c.Allow = c.Allow.Without(ServerName)
	}
}

// rulesOf returns the rules of a configuration. They are the same pointer for all tenants that have no others.
func rulesOf(c *config.Config) *Rules {
	if r := config.Of[Settings](c).Allow; r != nil {
		return r
	}
	return &noRules
}

var noRules Rules // allows nothing
