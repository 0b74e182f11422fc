package accesstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// CA is a certification authority.
type CA struct {
	Cert *x509.Certificate

	t   testing.TB
	key *ecdsa.PrivateKey
}

// NewCA creates a CA whose certificate is valid for a year.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	ca := &CA{t: t}
	c := ca.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: time.Now().AddDate(1, 0, 0),
	})
	ca.Cert, ca.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	return ca
}

// Client issues a certificate of a client; change may change its template. It is valid for an
// hour.
func (ca *CA) Client(change func(*x509.Certificate)) tls.Certificate {
	ca.t.Helper()
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(template)
	}
	return ca.issue(template)
}

// Named issues a certificate of a client with a common name.
func (ca *CA) Named(name string) tls.Certificate {
	ca.t.Helper()
	return ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = name })
}

// Server issues a certificate for a server at a loopback address, valid for a month.
func (ca *CA) Server(change func(*x509.Certificate)) tls.Certificate {
	ca.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotAfter: time.Now().AddDate(0, 1, 0),
	}
	if change != nil {
		change(template)
	}
	return ca.issue(template)
}

// Intermediate issues the certificate of another CA.
func (ca *CA) Intermediate(name string) *CA {
	ca.t.Helper()
	c := ca.issue(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	return &CA{Cert: c.Leaf, t: ca.t, key: c.PrivateKey.(*ecdsa.PrivateKey)}
}

func (ca *CA) issue(template *x509.Certificate) tls.Certificate {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-48 * time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		ca.t.Fatal(err)
	}
	parent, signer := ca.Cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Pool returns a pool with the CA only.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	return pool
}

// PEM returns certificates in PEM.
func PEM(certs ...*x509.Certificate) (text []byte) {
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// KeyPEM returns the key of a certificate in PEM.
func KeyPEM(t testing.TB, c tls.Certificate) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Replace replaces a file as programs that renew certificates do.
func Replace(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Write writes a certificate and its key to two files.
func Write(t testing.TB, c tls.Certificate, cert, key string) {
	t.Helper()
	Replace(t, cert, PEM(c.Leaf))
	Replace(t, key, KeyPEM(t, c))
}
