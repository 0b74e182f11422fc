package config

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/network"
)

// networkKeys are the keys of requests.
var networkKeys = map[string]key{
	"network.allow":                {read: allowNetwork, structured: true, tenant: true},
	"sandbox.allow_network_access": {read: allowAnyNetwork, structured: true},
}

// allowNetwork reads the rules of requests. An empty list allows none.
func allowNetwork(d *draft, s setting) error {
	if seq, ok := s.node.(*ast.SequenceNode); ok {
		for _, n := range seq.Values {
			if host, ok := n.(*ast.StringNode); ok {
				return fault.New(fault.Invalid, "%s: %s contains %.60q; write {host: %[3]s}", s.from, s.key, host.Value)
			}
		}
	}
	var rules []network.Rule
	if err := s.entries(&rules, d); err != nil {
		return err
	}
	if d.Network = nil; len(rules) == 0 {
		return nil
	}
	var err error
	if d.Network, err = network.NewRules(rules); err != nil {
		return fault.New(fault.Invalid, "%s: %s: %s", s.from, s.key, err)
	}
	return nil
}

// allowAnyNetwork reads a key of the seed systems: true allows every public host, a list its
// hosts. It has no effect together with network.allow.
func allowAnyNetwork(d *draft, s setting) error {
	hosts, all := []string{}, false
	if err := truth(&all, s.node); err != nil && patterns(&hosts, s.node) != nil {
		return fault.New(fault.Invalid, "%s: %s must be false, true or a list of hosts", s.from, s.key)
	}
	if all {
		hosts = []string{"*"}
	}
	if d.anyNetwork = nil; len(hosts) == 0 {
		return nil
	}
	var rules []network.Rule
	for _, h := range hosts {
		for _, scheme := range []string{"https", "http"} {
			rules = append(rules, network.Rule{Host: h, Scheme: scheme, Methods: []string{"*"}})
		}
	}
	var err error
	if d.anyNetwork, err = network.NewRules(rules); err != nil {
		return fault.New(fault.Invalid, "%s: %s: %s", s.from, s.key, err)
	}
	return nil
}

// useAnyNetwork makes allow_network_access effective, unless network.allow is given.
func (d *draft) useAnyNetwork() {
	if _, given := d.given["network.allow"]; given || d.anyNetwork == nil {
		return
	}
	d.Network = d.anyNetwork
	s := d.given["sandbox.allow_network_access"]
	what := "these hosts"
	if slices.Contains(d.Network.Hosts(), "*") {
		what = "every public host"
	}
	d.Warnings = append(d.Warnings, s.from+": "+s.key+" lets code send requests to "+what+", with every method and all data that it has; list hosts, methods and paths in network.allow instead")
}

// mentionsNetwork reports whether a tier or a tenant has rules of its own.
func mentionsNetwork(groups ...setting) bool {
	isNetwork := func(m *ast.MappingValueNode) bool { return m.Key.GetToken().Value == "network" }
	return slices.ContainsFunc(groups, func(s setting) bool {
		return s.node != nil && slices.ContainsFunc(section.Members(s.node), func(m *ast.MappingValueNode) bool {
			return slices.ContainsFunc(section.Members(m.Value), isNetwork)
		})
	})
}

// addNetwork adds the server of requests if some tenant may send them, and hides it from others.
func (c *Config) addNetwork() error {
	if c.Network == nil && (c.Tenants == nil || !c.Tenants.network) {
		return nil
	}
	for _, s := range c.Servers {
		if tool.ModuleNames([]string{s.Name})[s.Name] == network.ServerName {
			return fault.New(fault.Invalid, "server %s has the name of the server that network.allow adds", s.Name).WithHint("give it another name, such as my_network")
		}
	}
	rules := c.Network
	if rules == nil {
		rules = &network.Rules{}
		c.Allow = c.Allow.Without(network.ServerName)
	}
	c.Servers = append(c.Servers, Server{
		Name:        network.ServerName,
		Category:    "web",
		Network:     rules,
		Trusted:     true,
		Timeout:     5 * time.Minute,
		Concurrency: 64,
	})
	return nil
}
