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

// Locals are tokens that are good in one interpreter only: those that code sees in
// mode Strict. Code could otherwise find out which value a token of the vault
// stands for, by tokenising guesses. They are kept in memory and safe for
// concurrent use; nil has none.
type LocalTokens struct {
	key [32]byte

	mu     sync.Mutex
	values map[vault.Token]vault.Value
	bytes  int
	index  *known.Index // of values, to be found again; nil while there is none
}

const (
	// mostLocal bounds the bytes of values that one interpreter may have tokens of.
	maxLocalBytes = 64 << 20
	// mostFound bounds the values that are found again where nothing says what they
	// are.
	maxIndexed = 100_000
)

// NewLocals returns Locals without a token.
func NewLocalTokens() *LocalTokens {
	l := &LocalTokens{values: map[vault.Token]vault.Value{}}
	_, _ = rand.Read(l.key[:]) // never fails
	return l
}

var localID = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// tokens returns the tokens of values. What there is no room for is withheld.
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

// find returns the places in a text where values are that the interpreter has
// tokens of.
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
