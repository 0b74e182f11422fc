package home

import (
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Logins returns the store of a tenant's own logins to servers. It creates nothing.
func (t Directory) Logins(id tenant.ID) *secret.Store {
	return secret.NewStore(filepath.Join(t.layout.private(), id.Dir(), loginsDir), filepath.Join(t.layout.root, "key"))
}
