package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// A wrapped key begins with the fingerprint of the 32-byte master that wrapped it, to
// distinguish a wrong master from a damaged key.
const fingerprintSize = 16

// derivedKey derives a key for this use from the master key; the key file has other
// uses.
func derivedKey(master []byte) []byte {
	h := hmac.New(sha256.New, master)
	h.Write([]byte("sandpiper vault"))
	return h.Sum(nil)
}

func wrapWith(master, key, about []byte) ([]byte, error) {
	box, err := newAEAD(derivedKey(master))
	if err != nil {
		return nil, err
	}
	return box.Seal([]byte(secret.Fingerprint(master)), nil, key, about), nil
}

func unwrapWith(master, wrapped, about []byte) ([]byte, error) {
	box, err := newAEAD(derivedKey(master))
	if err != nil {
		return nil, err
	}
	key, err := box.Open(nil, nil, wrapped[fingerprintSize:], about)
	if err != nil {
		return nil, damaged(err)
	}
	return key, nil
}

// wrappedBy returns the fingerprint of the master that wrapped something.
func wrappedBy(wrapped []byte) (string, error) {
	if len(wrapped) < fingerprintSize {
		return "", damaged(nil)
	}
	return string(wrapped[:fingerprintSize]), nil
}

func damaged(err error) error {
	return fault.Wrap(fault.Internal, err, "a vault key is damaged").
		WithHint("restore the tenant's database from a backup, or shred the vault to start with an empty one")
}

// fileMaster wraps keys with a key in a file.
type fileMaster struct{ file secret.KeyFile }

func (m fileMaster) ID() string { return "file" }

// Check returns an error if the file contains another key than the keys were wrapped
// with.
func (m fileMaster) Check() error { return m.file.Check() }

func (m fileMaster) Wrap(_ context.Context, key, about []byte) ([]byte, error) {
	master, err := m.file.ReadPinned()
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
	master, err := m.file.ReadMatching(by)
	if err != nil {
		return nil, err
	}
	return unwrapWith(master, wrapped, about)
}

// keyringMaster wraps keys with a key in the keyring of the operating system.
type keyringMaster struct {
	at   string
	refs *secret.References
}

func (m keyringMaster) ID() string { return "keyring:" + m.at }

func (m keyringMaster) key(ctx context.Context) ([]byte, error) {
	text, err := m.refs.Resolve(ctx, "${keyring:"+m.at+"}")
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keySize {
		return nil, fault.New(fault.Unavailable, "keyring entry %s is not a master key", m.at).
			WithHint("store %d random bytes in base64 there: openssl rand -base64 %d", keySize, keySize)
	}
	return key, nil
}

func (m keyringMaster) Wrap(ctx context.Context, key, about []byte) ([]byte, error) {
	master, err := m.key(ctx)
	if err != nil {
		return nil, err
	}
	return wrapWith(master, key, about)
}

func (m keyringMaster) Unwrap(ctx context.Context, wrapped, about []byte) ([]byte, error) {
	need, err := wrappedBy(wrapped)
	if err != nil {
		return nil, err
	}
	master, err := m.key(ctx)
	if err != nil {
		return nil, err
	}
	if have := secret.Fingerprint(master); have != need {
		return nil, fault.New(fault.Unavailable, "master key with fingerprint %s is required, but keyring entry %s has %s", need, m.at, have).
			WithHint("restore the right key; nothing is lost, and no other key is used")
	}
	return unwrapWith(master, wrapped, about)
}
