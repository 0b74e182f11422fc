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

// kmsMaster wraps keys with a key of a key management service, which never leaves it.
type kmsMaster struct {
	uri  string
	dial func(context.Context) (tink.AEADWithContext, error)

	mu     sync.Mutex
	client tink.AEADWithContext // nil before first use
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

// kmsTimeout limits each request to a service.
const kmsTimeout = 20 * time.Second

func (m *kmsMaster) ID() string { return m.uri }

func (m *kmsMaster) Wrap(ctx context.Context, key, additionalData []byte) ([]byte, error) {
	return m.ask(ctx, func(ctx context.Context, c tink.AEADWithContext) ([]byte, error) {
		return c.EncryptWithContext(ctx, key, additionalData)
	})
}

func (m *kmsMaster) Unwrap(ctx context.Context, wrapped, additionalData []byte) ([]byte, error) {
	return m.ask(ctx, func(ctx context.Context, c tink.AEADWithContext) ([]byte, error) {
		return c.DecryptWithContext(ctx, wrapped, additionalData)
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
		c, err := m.dial(context.WithoutCancel(ctx)) // the client outlives this request
		if err != nil {
			return nil, err
		}
		m.client = c
	}
	return m.client, nil
}

func (m *kmsMaster) fault(err error) error {
	return fault.Wrap(fault.Unavailable, err, "cannot use master key %s", m.uri).
		WithHint("the service must be reachable, and the default credentials of its vendor's tools must permit encrypt and decrypt; the log contains its answer. Nothing is lost, and no other key is used")
}

// vaultAEAD adapts the library's client, whose time is limited by its configuration.
type vaultAEAD struct{ tink.AEAD }

func (a vaultAEAD) EncryptWithContext(_ context.Context, plain, additionalData []byte) ([]byte, error) {
	return a.Encrypt(plain, additionalData)
}

func (a vaultAEAD) DecryptWithContext(_ context.Context, sealed, additionalData []byte) ([]byte, error) {
	return a.Decrypt(sealed, additionalData)
}

// dialVault reads token and certificates from the environment like the vault command:
// VAULT_TOKEN, VAULT_CACERT and so on.
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
	if err := client.SetAddress(cfg.Address); err != nil { // VAULT_ADDR may be another server
		return nil, err
	}
	kms, err := hcvault.NewClientWithAEADOptions(uri, client.Logical())
	if err != nil {
		return nil, err
	}
	a, err := kms.GetAEAD(uri)
	return vaultAEAD{a}, err
}
