package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// algorithms are the accepted signature algorithms: all asymmetric ones. A symmetric one could be
// used with a public key as its secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// Ages of the keys of a provider.
const (
	freshKeys = 5 * time.Minute // after which they are read again, so that a key that was withdrawn is refused
	staleKeys = time.Hour       // after which they are refused if they cannot be read again
)

// keySet verifies signatures with the keys of a provider. Unlike the key set of
// the library, it drops keys that the provider has withdrawn, and reads the keys at most every
// retry, whatever keys tokens name.
type keySet struct {
	url    string
	client *http.Client

	reading sync.Mutex
	tried   time.Time // last attempt, guarded by reading

	mu   sync.Mutex
	keys []jose.JSONWebKey
	read time.Time // when keys were read
}

// VerifySignature returns the payload of a token with a valid signature.
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return nil, errors.New("malformed token")
	}
	keys, err := s.current(ctx, freshKeys)
	if err != nil {
		return nil, err
	}
	if payload, ok := verify(jws, keys); ok {
		return payload, nil
	}
	if keys, err = s.current(ctx, retry); err != nil { // the provider may have a new key
		return nil, err
	}
	if payload, ok := verify(jws, keys); ok {
		return payload, nil
	}
	return nil, errors.New("no key of the provider verifies the signature")
}

func verify(jws *jose.JSONWebSignature, keys []jose.JSONWebKey) ([]byte, bool) {
	id := jws.Signatures[0].Header.KeyID
	for _, k := range keys {
		if (id == "" || k.KeyID == id) && k.Use != "enc" {
			if payload, err := jws.Verify(&k); err == nil {
				return payload, true
			}
		}
	}
	return nil, false
}

// current returns keys that were read within the given time, or older ones if they cannot be read
// now. One caller reads them at a time; others use the old ones until then.
func (s *keySet) current(ctx context.Context, within time.Duration) ([]jose.JSONWebKey, error) {
	if keys, age := s.cached(); age < within {
		return keys, nil
	} else if age > staleKeys {
		s.reading.Lock()
	} else if !s.reading.TryLock() {
		return keys, nil
	}
	defer s.reading.Unlock()
	var err error
	if _, age := s.cached(); age >= within && time.Since(s.tried) >= retry {
		s.tried = time.Now()
		var keys []jose.JSONWebKey
		if keys, err = s.fetch(context.WithoutCancel(ctx)); err == nil {
			s.mu.Lock()
			s.keys, s.read = keys, time.Now()
			s.mu.Unlock()
		}
	}
	keys, age := s.cached()
	if age > staleKeys {
		return nil, errors.Join(errUnreachable, err)
	}
	return keys, nil
}

// cached returns the keys and their age.
func (s *keySet) cached() ([]jose.JSONWebKey, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys, time.Since(s.read)
}

// maxKeySet limits the size of a provider's key set.
const maxKeySet = 1 << 20

func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read keys: %s", res.Status)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet))
	if err != nil {
		return nil, err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return set.Keys, nil
}
