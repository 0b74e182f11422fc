package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// fingerprintSize is the size of a fingerprint. A wrapped key begins with that of the
// master key that wrapped it, to distinguish a wrong master key from a damaged wrapped key.
const fingerprintSize = 16

// derivedKey derives the key that wraps keys of vaults from a master key, from which other
// packages derive keys of their own.
func derivedKey(master []byte) []byte {
	h := hmac.New(sha256.New, master)
	h.Write([]byte("sandpiper vault"))
	return h.Sum(nil)
}

func wrapWith(master, key, additionalData []byte) ([]byte, error) {
	aead, err := sealed.NewAEAD(derivedKey(master))
	if err != nil {
		return nil, err
	}
	return aead.Seal([]byte(secret.Fingerprint(master)), nil, key, additionalData), nil
}

// unwrapWith unwraps a key for which wrappedBy returned no error.
func unwrapWith(master, wrapped, additionalData []byte) ([]byte, error) {
	aead, err := sealed.NewAEAD(derivedKey(master))
	if err != nil {
		return nil, err
	}
	key, err := aead.Open(nil, nil, wrapped[fingerprintSize:], additionalData)
	if err != nil {
		return nil, damaged(err)
	}
	return key, nil
}

// wrappedBy returns the fingerprint of the master key that wrapped a key.
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

// Check returns an error if the file does not contain the pinned key. It does not read the
// wrapped keys.
func (m fileMaster) Check() error { return m.file.Check() }

func (m fileMaster) Wrap(_ context.Context, key, additionalData []byte) ([]byte, error) {
	master, err := m.file.ReadPinned()
	if err != nil {
		return nil, err
	}
	return wrapWith(master, key, additionalData)
}

func (m fileMaster) Unwrap(_ context.Context, wrapped, additionalData []byte) ([]byte, error) {
	by, err := wrappedBy(wrapped)
	if err != nil {
		return nil, err
	}
	master, err := m.file.ReadMatching(by)
	if err != nil {
		return nil, err
	}
	return unwrapWith(master, wrapped, additionalData)
}

// keyringMaster returns the master with a key in the keyring of the operating system, where
// entry is SERVICE/ACCOUNT.
func keyringMaster(entry string) Master {
	refs := new(secret.References)
	return fetchedMaster{"keyring:" + entry, "keyring entry " + entry, func(ctx context.Context) ([]byte, error) {
		text, err := refs.Resolve(ctx, "${keyring:"+entry+"}")
		if err != nil {
			return nil, err
		}
		key, ok := parseKey(text)
		if !ok {
			return nil, fault.New(fault.Unavailable, "keyring entry %s is not a master key", entry).
				WithHint("store %d random bytes in base64 there: openssl rand -base64 %[1]d", keySize)
		}
		return key, nil
	}}
}

// parseKey reads a key in base64 or hexadecimal. A key in hexadecimal would be a longer one
// in base64.
func parseKey(text string) (key []byte, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) == hex.EncodedLen(keySize) {
		key, err := hex.DecodeString(text)
		return key, err == nil
	}
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSuffix(text, "="))
	key, err := base64.RawStdEncoding.DecodeString(text)
	return key, err == nil && len(key) == keySize && len(text) == base64.RawStdEncoding.EncodedLen(keySize)
}

// fetchedMaster wraps keys with a key that is kept elsewhere.
type fetchedMaster struct {
	id, name string // name is for messages
	fetch    func(context.Context) ([]byte, error)
}

func (m fetchedMaster) ID() string { return m.id }

func (m fetchedMaster) Wrap(ctx context.Context, key, additionalData []byte) ([]byte, error) {
	master, err := m.fetch(ctx)
	if err != nil {
		return nil, err
	}
	return wrapWith(master, key, additionalData)
}

func (m fetchedMaster) Unwrap(ctx context.Context, wrapped, additionalData []byte) ([]byte, error) {
	need, err := wrappedBy(wrapped)
	if err != nil {
		return nil, err
	}
	master, err := m.fetch(ctx)
	if err != nil {
		return nil, err
	}
	if have := secret.Fingerprint(master); have != need {
		return nil, fault.New(fault.Unavailable, "master key with fingerprint %s is required, but %s has %s", need, m.name, have).
			WithHint("restore the right key; no data is lost, and no other key is accepted")
	}
	return unwrapWith(master, wrapped, additionalData)
}
