package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestAssertionIsSignedWithEachKindOfKey(t *testing.T) {
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return encode("PRIVATE KEY", der, err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		text   string
		public crypto.PublicKey
		want   jose.SignatureAlgorithm
	}
	rows := []row{
		{pkcs8(rsaKey), rsaKey.Public(), jose.RS256},
		{encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil), rsaKey.Public(), jose.RS256},
		{pkcs8(edKey), edKey.Public(), jose.EdDSA},
	}
	for curve, want := range map[elliptic.Curve]jose.SignatureAlgorithm{elliptic.P256(): jose.ES256, elliptic.P384(): jose.ES384,
		elliptic.P521(): jose.ES512} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		sec1 := encode("EC PRIVATE KEY", der, err)
		parameters := encode("EC PARAMETERS", []byte{6, 1, 0}, nil) // as OpenSSL writes before the key
		rows = append(rows, row{pkcs8(key), key.Public(), want}, row{sec1, key.Public(), want}, row{parameters + sec1, key.Public(), want})
	}
	for _, r := range rows {
		params := url.Values{}
		c := Config{Client: Client{ID: "me", Key: r.text}}
		if err := c.signAssertion("https://issuer.example", clientIdentity{ID: "me", Method: methodPrivateKey}, params); err != nil {
			t.Errorf("%.30s, %s: %v", r.text, r.want, err)
			continue
		}
		signed, err := jose.ParseSignedCompact(params.Get("client_assertion"), []jose.SignatureAlgorithm{r.want})
		if err != nil {
			t.Fatalf("%s: %v", r.want, err)
		}
		payload, err := signed.Verify(r.public)
		var claims struct {
			Issuer   string `json:"iss"`
			Subject  string `json:"sub"`
			ID       string `json:"jti"`
			Audience any    `json:"aud"`
			Issued   int64  `json:"iat"`
			Expires  int64  `json:"exp"`
		}
		if err := errors.Join(err, json.Unmarshal(payload, &claims)); err != nil {
			t.Fatal(err)
		}
		lasts := time.Duration(claims.Expires-claims.Issued) * time.Second
		if claims.Issuer != "me" || claims.Subject != "me" || claims.ID == "" || lasts != time.Minute ||
			time.Since(time.Unix(claims.Issued, 0)).Abs() > time.Minute {
			t.Errorf("%s: %s", r.want, payload)
		}
		if typ := signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType]; typ != "JWT" {
			t.Errorf("%s: typ is %v", r.want, typ)
		}
	}
}

func TestOtherKeysAreRefused(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"":         "",
		"no PEM":   "secret",
		"a curve":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"a public": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"damaged":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]})),
	} {
		if _, err := parseKey(text); !errors.Is(err, errKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
