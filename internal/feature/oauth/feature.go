package oauth

import (
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// Feature returns the feature: access tokens for servers over HTTP, the key oauth of servers, and the
// commands login and logout for tools.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name: "oauth",
			Config: config.Section{Authorization: config.AuthorizationKey{Name: "oauth",
				New: func() config.Authorization { return new(Client) }}},
		},
		Docs:     "oauth.md",
		Commands: commands,
	}
}
