package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/secret"
)

// What a master of 32 bytes wraps begins with the master's fingerprint, so that
// another key can be told from damage.
const fingerprintSize = 16

// wrapper is made of a master key for this use alone: the key file serves others.
func wrapper(master []byte) []byte {
	h := hmac.New(sha256.New, master)
	h.Write([]byte("sandpiper vault"))
	return h.Sum(nil)
}

func wrapWith(master, key, about []byte) ([]byte, error) {
	box, err := newAEAD(wrapper(master))
	if err != nil {
		return nil, err
	}
	return box.Seal([]byte(secret.Fingerprint(master)), nil, key, about), nil
}

func unwrapWith(master, wrapped, about []byte) ([]byte, error) {
	box, err := newAEAD(wrapper(master))
	if err != nil {
		return nil, err
	}
	key, err := box.Open(nil, nil, wrapped[fingerprintSize:], about)
	if err != nil {
		return nil, damaged(err)
	}
	return key, nil
}

// wrapper's fingerprint, of what it wrapped.
func wrappedBy(wrapped []byte) (string, error) {
	if len(wrapped) < fingerprintSize {
		return "", damaged(nil)
	}
	return string(wrapped[:fingerprintSize]), nil
}

func damaged(err error) error {
	return fault.Wrap(fault.Internal, err, "a key of the vault is damaged").
		WithHint("restore the tenant's database from a backup, or shred the vault to start with an empty one")
}

// fileMaster has its key in a file.
type fileMaster struct{ file secret.KeyFile }

func (m fileMaster) ID() string { return "file" }

func (m fileMaster) Wrap(_ context.Context, key, about []byte) ([]byte, error) {
	master, err := m.file.Use()
	if err != nil {
		return nil, err
	}
	return wrapWith(master, key, about)
}

func (m fileMaster) Unwrap(_ context.Context, wrapped, about []byte) ([]byte, error) {
	by, err := wrappedBy(wrapped)
	if err != nil {
		return nil, err
	}
	master, err := m.file.Only(by)
	if err != nil {
		return nil, err
	}
	return unwrapWith(master, wrapped, about)
}
