//go:build !kms

package vault

import "github.com/sandpiper-mcp/sandpiper/internal/fault"

func openKMS(kind, _ string) (Master, error) {
	return nil, fault.New(fault.Unavailable, "this build of Sandpiper has no support for %s master keys", kind).
		WithHint("build it with go build -tags kms ./cmd/sandpiper, or use a key file or the keyring")
}
