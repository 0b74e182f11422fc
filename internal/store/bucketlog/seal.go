package bucketlog

import (
	"crypto/cipher"
	"errors"
	"fmt"

	"filippo.io/age"

	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// stanza is the type of the stanza with the file key in the head of an object.
const stanza = "sandpiper-object"

// sealer encrypts the file keys of objects.
type sealer struct{ cipher.AEAD }

func newSealer(key []byte) (sealer, error) {
	aead, err := sealed.NewAEAD(key)
	return sealer{aead}, err
}

// of returns the recipient and the identity of the object with a key.
func (s sealer) of(key string) object { return object{s, key} }

type object struct {
	seal sealer
	key  string
}

// Wrap implements age.Recipient.
func (o object) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: stanza, Body: o.seal.Seal(nil, nil, fileKey, []byte(o.key))}}, nil
}

// Unwrap implements age.Identity.
func (o object) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != stanza {
			continue
		}
		if fileKey, err := o.seal.Open(nil, nil, s.Body, []byte(o.key)); err == nil {
			return fileKey, nil
		}
		return nil, errors.New("it was encrypted with another master key, or has another name")
	}
	return nil, fmt.Errorf("%w: it is no object of Sandpiper", age.ErrIncorrectIdentity)
}
