//go:build kms

package vault

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/tink-crypto/tink-go-awskms/v3/integration/awskms"
	"github.com/tink-crypto/tink-go-gcpkms/v2/integration/gcpkms"
	"github.com/tink-crypto/tink-go-hcvault/v2/integration/hcvault"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// kmsMaster has its key in a key management service, which it never leaves.
type kmsMaster struct {
	uri  string
	dial func(context.Context) (tink.AEADWithContext, error)

	mu     sync.Mutex
	client tink.AEADWithContext // once it was needed
}

func openKMS(kind, uri string) (Master, error) {
	m := &kmsMaster{uri: uri}
	switch kind {
	case "aws-kms":
		m.dial = func(ctx context.Context) (tink.AEADWithContext, error) {
			return awskms.NewAEADWithContext(ctx, strings.TrimPrefix(uri, "aws-kms://"))
		}
	case "gcp-kms":
		m.dial = func(ctx context.Context) (tink.AEADWithContext, error) { return gcpkms.GetAEADWithContext(ctx, uri) }
	case "hcvault":
		m.dial = func(context.Context) (tink.AEADWithContext, error) { return dialVault(uri) }
	}
	return m, nil
}

// kmsTimeout is how long an answer of a service is waited for.
const kmsTimeout = 20 * time.Second

func (m *kmsMaster) ID() string { return m.uri }

func (m *kmsMaster) Wrap(ctx context.Context, key, about []byte) ([]byte, error) {
	return m.ask(ctx, func(ctx context.Context, c tink.AEADWithContext) ([]byte, error) {
		return c.EncryptWithContext(ctx, key, about)
	})
}

func (m *kmsMaster) Unwrap(ctx context.Context, wrapped, about []byte) ([]byte, error) {
	return m.ask(ctx, func(ctx context.Context, c tink.AEADWithContext) ([]byte, error) {
		return c.DecryptWithContext(ctx, wrapped, about)
	})
}

func (m *kmsMaster) ask(ctx context.Context, f func(context.Context, tink.AEADWithContext) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kmsTimeout)
	defer cancel()
	c, err := m.open(ctx)
	if err != nil {
		return nil, m.fault(err)
	}
	answer, err := f(ctx, c)
	if err != nil {
		return nil, m.fault(err)
	}
	return answer, nil
}

func (m *kmsMaster) open(ctx context.Context) (tink.AEADWithContext, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == nil {
		c, err := m.dial(context.WithoutCancel(ctx)) // it outlives this question
		if err != nil {
			return nil, err
		}
		m.client = c
	}
	return m.client, nil
}

func (m *kmsMaster) fault(err error) error {
	return fault.Wrap(fault.Unavailable, err, "the master key %s cannot be used", m.uri).
		WithHint("it must be reachable, and the credentials that its vendor's programs would use here must allow to encrypt and decrypt; the log says what was answered. Nothing is lost until then, and no other key is used")
}

// vaultAEAD gives the library's client the form of the others; its time is
// bounded by the configuration.
type vaultAEAD struct{ tink.AEAD }

func (a vaultAEAD) EncryptWithContext(_ context.Context, plain, about []byte) ([]byte, error) {
	return a.Encrypt(plain, about)
}

func (a vaultAEAD) DecryptWithContext(_ context.Context, sealed, about []byte) ([]byte, error) {
	return a.Decrypt(sealed, about)
}

// dialVault takes token and certificates from where the program vault does:
// VAULT_TOKEN, VAULT_CACERT and their like.
func dialVault(uri string) (tink.AEADWithContext, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	cfg := api.DefaultConfig()
	if cfg.Error != nil {
		return nil, cfg.Error
	}
	cfg.Address, cfg.Timeout, cfg.MaxRetries = "https://"+u.Host, kmsTimeout/2, 1
	client, err := api.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	if err := client.SetAddress(cfg.Address); err != nil { // the environment's is another's
		return nil, err
	}
	kms, err := hcvault.NewClientWithAEADOptions(uri, client.Logical())
	if err != nil {
		return nil, err
	}
	a, err := kms.GetAEAD(uri)
	return vaultAEAD{a}, err
}
