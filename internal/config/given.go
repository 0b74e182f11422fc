package config

import (
	"cmp"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
)

// Given is what settings of features may depend on besides themselves: which keys were given, and the
// variables of Azure.
type Given struct {
	d           *draft
	env, dotenv map[string]string
}

// From returns where a key is set, such as "sandpiper.yaml line 3"; "" if it is not.
func (g Given) From(key string) string { return g.d.given[key].from }

// OfTenants reports whether a tier or a tenant sets a key of a section.
func (g Given) OfTenants(of string) bool {
	isSection := func(m *ast.MappingValueNode) bool { return m.Key.GetToken().Value == of }
	return slices.ContainsFunc([]string{"tiers", "tenants"}, func(group string) bool {
		n := g.d.given[group].node
		return n != nil && slices.ContainsFunc(section.Members(n), func(m *ast.MappingValueNode) bool {
			return slices.ContainsFunc(section.Members(m.Value), isSection)
		})
	})
}

// Warn adds a sentence to the warnings of the configuration.
func (g Given) Warn(sentence string) { g.d.Warn(sentence) }

// Variables of an Azure OpenAI resource, which the seed systems use too.
const (
	azureEndpoint = "AZURE_OPENAI_ENDPOINT"
	azureKey      = "AZURE_OPENAI_API_KEY"
)

// AzureUse is one use of an Azure OpenAI resource.
type AzureUse struct {
	Deployment, Version string // its own variables
	Key                 string // that selects Azure
	Without             string // what happens if Azure is not used
}

// HasAzure reports whether the key of a use is not set, but .env has all its variables. The environment
// takes precedence over .env, so a variable that differs there is used only if the configuration refers to
// it: it may be meant for another program.
func (g Given) HasAzure(use AzureUse) bool {
	if _, given := g.d.given[use.Key]; given {
		return false
	}
	for _, name := range []string{azureEndpoint, azureKey, use.Deployment} {
		if g.dotenv[name] == "" {
			return false
		}
	}
	for _, name := range []string{azureEndpoint, azureKey, use.Deployment, use.Version} {
		if v, ok := g.env[name]; ok && v != g.dotenv[name] {
			g.d.Warn(name + " in the environment differs from .env, so " + use.Without + "; set " + use.Key +
				" to azure to use it, or to none")
			return false
		}
	}
	return true
}

// CompleteAzure sets what is empty from the variables of a use.
func (g Given) CompleteAzure(use AzureUse, url, key, deployment, version *string) {
	lookup := func(name string) string { return cmp.Or(g.env[name], g.dotenv[name]) }
	for name, to := range map[string]*string{azureEndpoint: url, azureKey: key} {
		if lookup(name) != "" && *to == "" {
			*to = "${" + name + "}"
		}
	}
	// A version applies to the deployment interface, so take it only together with the deployment.
	if name := lookup(use.Deployment); name != "" && *deployment == "" {
		*deployment = name
		*version = cmp.Or(*version, lookup(use.Version))
	}
}
