package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// LocalTokens are tokens that are valid in one interpreter only: those that code sees
// in mode Strict. Otherwise code could find the value of a vault token by tokenizing
// guesses. They are kept in memory and are safe for concurrent use; nil has none.
type LocalTokens struct {
	key [32]byte

	mu     sync.Mutex
	values map[vault.Token]vault.Value
	bytes  int
	index  *known.Index // finds the values in text; nil while there are none
}

const (
	// maxLocalBytes limits the size of the values that one interpreter has tokens for.
	maxLocalBytes = 64 << 20
	// maxIndexed limits the values that are found again in text.
	maxIndexed = 100_000
)

// NewLocalTokens returns an empty LocalTokens.
func NewLocalTokens() *LocalTokens {
	l := &LocalTokens{values: map[vault.Token]vault.Value{}}
	_, _ = rand.Read(l.key[:]) // never fails
	return l
}

var localID = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// createAll returns the tokens of values. Values over the limit are redacted.
func (l *LocalTokens) createAll(values []vault.Value) []vault.Token {
	all := make([]vault.Token, len(values))
	for i, v := range values {
		all[i] = l.create(v)
	}
	return all
}

func (l *LocalTokens) create(v vault.Value) vault.Token {
	mac := hmac.New(sha256.New, l.key[:])
	mac.Write([]byte(string(v.Type) + "\x00" + v.Text))
	if v.Number {
		mac.Write([]byte{0})
	}
	t := vault.Token("[" + string(v.Type) + "_" + localID.EncodeToString(mac.Sum(nil)[:10]) + "]")
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.values[t]; ok {
		return t
	}
	if l.bytes += len(v.Text) + 64; l.bytes > maxLocalBytes {
		return vault.RedactedToken(v.Type)
	}
	l.values[t] = v
	if l.index == nil {
		l.index = known.New(maxIndexed)
	}
	l.index.Add(v.Type, v.Text)
	return t
}

// find returns the positions of values that the interpreter has tokens for.
func (l *LocalTokens) find(text string) []detect.Finding {
	l.mu.Lock()
	index := l.index
	l.mu.Unlock()
	if index == nil {
		return nil
	}
	return index.Find(text)
}

func (l *LocalTokens) has(t vault.Token) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.values[t]
	return ok
}

func (l *LocalTokens) value(t vault.Token) vault.Value {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[t]
}
