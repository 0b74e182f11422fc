//go:build !kms

package vault

import "github.com/sandpiper-mcp/sandpiper/internal/fault"

func openKMS(kind, _ string) (Master, error) {
	return nil, fault.New(fault.Unavailable, "this Sandpiper cannot use a master key of %s: it was built without", kind).
		WithHint("build it with go build -tags kms ./cmd/sandpiper, or use a key file or the keyring")
}
