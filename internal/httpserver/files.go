package httpserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// filesInterval is the least time between two reads of files that may be replaced.
const filesInterval = time.Second

// maxPEM limits the size of a file with certificates or a key.
const maxPEM = 4 << 20

// watched is a value that is read from files, and read again when they have changed. Nothing
// runs in the background: files are looked at when the value is used.
type watched[T any] struct {
	files []string
	parse func(contents [][]byte) (T, error)
	// strict makes the zero T the value while the files are invalid. Otherwise the last valid
	// value is used.
	strict bool
	log    *slog.Logger

	mu       sync.Mutex
	value    T
	contents [][]byte
	read     time.Time // last
	failure  string    // logged last
}

// open reads the files for the first time.
func (w *watched[T]) open() (err error) {
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.contents, err = readAll(w.files); err == nil {
		w.value, err = w.parse(w.contents)
	}
	w.read = time.Now()
	return err
}

// now returns the current value.
func (w *watched[T]) now() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.read) < filesInterval {
		return w.value
	}
	w.read = time.Now()
	contents, err := readAll(w.files)
	if err == nil && same(contents, w.contents) {
		return w.value
	}
	var value T
	if err == nil {
		w.contents = contents
		value, err = w.parse(contents)
	} else {
		w.contents = nil
	}
	switch {
	case err == nil:
		w.value, w.failure = value, ""
		w.log.Info("TLS files were read again", "files", w.files)
		return w.value
	case w.strict:
		w.value = value
	}
	if m := fault.Message(err); m != w.failure { // once, not every second
		w.failure = m
		w.log.Error("TLS files were replaced by invalid ones", "error", m, "previous_in_use", !w.strict)
	}
	return w.value
}

func same(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func readAll(files []string) (contents [][]byte, err error) {
	for _, file := range files {
		info, err := os.Stat(file)
		if err == nil && (!info.Mode().IsRegular() || info.Size() > maxPEM) {
			return nil, fault.New(fault.Invalid, "%s is not a file of at most %d MiB", file, maxPEM>>20)
		}
		var b []byte
		if err == nil {
			b, err = os.ReadFile(file)
		}
		if err != nil {
			var path *fs.PathError
			reason := err
			if errors.As(err, &path) {
				reason = path.Err
			}
			return nil, fault.Wrap(fault.Invalid, err, "cannot read %s: %s", file, reason)
		}
		contents = append(contents, b)
	}
	return contents, nil
}

// Certificate is a certificate with its key, in files that may be replaced at any time.
type Certificate struct{ files watched[*tls.Certificate] }

// OpenCertificate reads a certificate chain and its key in PEM. log receives warnings about
// expiry and about later versions of the files; nil means discard.
func OpenCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{}
	c.files.files, c.files.log = []string{cert, key}, log
	c.files.parse = func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, pairError(cert, key, contents, err)
		}
		if left := time.Until(pair.Leaf.NotAfter); left <= 0 {
			c.files.log.Warn("the TLS certificate has expired; clients will reject it", "file", cert, "expired", pair.Leaf.NotAfter.UTC().
				Format(time.DateTime))
		} else if left < 7*24*time.Hour && left < pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)/4 {
			c.files.log.Warn("the TLS certificate expires soon", "file", cert, "expires", pair.Leaf.NotAfter.UTC().Format(time.DateTime))
		}
		return &pair, nil
	}
	if err := c.files.open(); err != nil {
		return nil, err
	}
	return c, nil
}

// pairError returns the error of a certificate and a key that cannot be used together.
func pairError(cert, key string, contents [][]byte, err error) error {
	switch block, _ := pem.Decode(contents[1]); {
	case firstOf(contents[0]) == nil:
		return fault.Wrap(fault.Invalid, err, "%s contains no certificate in PEM", cert)
	case block == nil:
		return fault.Wrap(fault.Invalid, err, "%s contains no private key in PEM", key)
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
		return fault.Wrap(fault.Invalid, err, "the private key in %s is encrypted with a passphrase", key).
			WithHint("openssl pkey -in %s -out NEW_FILE removes it; protect the new file with mode 0600", key)
	case publicKeysDiffer(contents):
		return fault.Wrap(fault.Invalid, err, "the private key in %s does not belong to the first certificate in %s", key, cert).
			WithHint("the server's own certificate comes first in the file, followed by intermediate ones")
	}
	return fault.Wrap(fault.Invalid, err, "the certificate in %s and the key in %s cannot be used: %s", cert, key, err)
}

// publicKeysDiffer reports whether the key can be used with another certificate.
func publicKeysDiffer(contents [][]byte) bool {
	first := firstOf(contents[0])
	_, err := tls.X509KeyPair(pem.EncodeToMemory(first), contents[1])
	return err != nil && (err.Error() == "tls: private key does not match public key" ||
		err.Error() == "tls: private key type does not match public key type")
}

// firstOf returns the first certificate of a file, or nil.
func firstOf(content []byte) *pem.Block {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block
		}
	}
	return nil
}

// Get is for tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.files.now(), nil }

// Roots are the certificates of CAs, in a file that may be replaced at any time.
type Roots struct{ files watched[*x509.CertPool] }

// OpenRoots reads certificates in PEM. A later version of the file without valid certificates
// is an empty list: it rejects all clients. log receives errors of later versions; nil means
// discard.
func OpenRoots(file string, log *slog.Logger) (*Roots, error) {
	r := &Roots{}
	r.files.files, r.files.log, r.files.strict = []string{file}, log, true
	r.files.parse = func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, fault.New(fault.Invalid, "%s contains no certificate in PEM", file)
		}
		return pool, nil
	}
	if err := r.files.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// Pool returns the current certificates.
func (r *Roots) Pool() *x509.CertPool {
	if pool := r.files.now(); pool != nil {
		return pool
	}
	return x509.NewCertPool()
}
