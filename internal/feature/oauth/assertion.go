package oauth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// signAssertion adds a client assertion signed with the private key (RFC 7523).
func (c Config) signAssertion(issuer string, k clientIdentity, params url.Values) error {
	if k.Method != methodPrivateKey {
		return nil
	}
	key, err := parseKey(c.Client.Key)
	if err != nil {
		return err
	}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return errKey
	}
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": k.ID, "sub": k.ID, "aud": []string{issuer}, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	if err != nil {
		return err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return errKey
	}
	assertion, err := signed.CompactSerialize()
	params.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	params.Set("client_assertion", assertion)
	return err
}

var errKey = fault.New(fault.Invalid, "has an invalid private_key in its oauth").
	WithHint("it must be an EC (P-256, P-384, P-521), RSA or Ed25519 key in PEM")

// parseKey returns the first private key in text. OpenSSL writes the parameters of an EC key before it.
func parseKey(text string) (jose.SigningKey, error) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return jose.SigningKey{}, errKey
		}
		for _, parse := range []func([]byte) (any, error){
			x509.ParsePKCS8PrivateKey,
			func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
			func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
		} {
			if key, err := parse(block.Bytes); err == nil && algorithm(key) != "" {
				return jose.SigningKey{Algorithm: algorithm(key), Key: key}, nil
			}
		}
	}
}

// algorithm returns that of a key, "" for another kind of key.
func algorithm(key any) jose.SignatureAlgorithm {
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		return map[int]jose.SignatureAlgorithm{256: jose.ES256, 384: jose.ES384, 521: jose.ES512}[k.Curve.Params().BitSize]
	case *rsa.PrivateKey:
		return jose.RS256
	case ed25519.PrivateKey:
		return jose.EdDSA
	}
	return ""
}
