// Package access identifies the callers of a daemon over HTTP. A Keys stores API keys; a key
// identifies one tenant, the scopes of its requests, and when it expires. Only the hash of a
// key is stored. A Provider verifies tokens of an OpenID provider, and Certificates verifies
// client certificates.
//
// Any number of processes may use the same Keys, and see changes at once. The package does
// not decide which request needs which scope.
package access

import (
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Scope is a permission of a caller.
type Scope string

// The scopes.
const (
	Execute Scope = "execute" // run code, call tools, use skills and sessions
	Files   Scope = "files"   // read and change files of the workspace directly
	Approve Scope = "approve" // answer for the person whether a call may proceed
	Admin   Scope = "admin"   // change the server and other tenants
)

// Scopes are all scopes.
var Scopes = []Scope{Execute, Files, Approve, Admin}

// ParseScope returns the scope with a name.
func ParseScope(name string) (Scope, error) {
	if !slices.Contains(Scopes, Scope(name)) {
		return "", fault.New(fault.Invalid, "there is no scope %.80q; the scopes are execute, files, approve and admin", name)
	}
	return Scope(name), nil
}

// identified returns the tenant of a uid that an identity provider assigns. It is never tenant.Local, whose
// files and settings are those of the operator.
func identified(uid string) (tenant.ID, error) {
	id, err := tenant.Parse(uid)
	if err == nil && id == tenant.Local {
		return tenant.ID{}, fault.New(fault.Denied, "the tenant %s is that of the operator", id)
	}
	return id, err
}

// Identity is the caller of a request.
type Identity struct {
	Tenant  tenant.ID
	Scopes  []Scope
	Expires time.Time // zero means never
}
