package vault

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// alphabet is Crockford's base32 in lower case.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// step is the number of characters by which an id that is taken was extended when the shortest id
// had longID characters.
const step = 4

// draft is a value with everything that is computed from it with the id key.
type draft struct {
	value Value
	id    string // longID characters; shortID is the shortest id
	tail  string // extends an id
	mark  []byte // equal only for equal surfaces
}

func (k *keys) draft(v Value) draft {
	kind := "text"
	if v.Number {
		kind = "number"
	}
	surface := k.sum("surface", v.Type, kind, v.Text)
	return draft{
		value: v,
		id:    encoding.EncodeToString(k.sum("id", v.Type, canonical(v))[:10]),
		tail:  encoding.EncodeToString(surface[:30]),
		mark:  k.sum("mark", v.Type, kind, v.Text)[:16],
	}
}

// sum is a keyed hash. Only the last text may contain zero bytes.
func (k *keys) sum(use string, t detect.Type, texts ...string) []byte {
	h := hmac.New(sha256.New, k.id)
	h.Write([]byte(use + "\x00" + string(t)))
	for _, text := range texts {
		h.Write([]byte{0})
		h.Write([]byte(text))
	}
	return h.Sum(nil)
}

// ids yields the ids that a value may have, shortest first. The value uses the first
// that is free or already its own.
func (d draft) ids(yield func(string) bool) {
	stem := shortID(d.id)
	for extra := range min(len(d.tail), maxID-minID) + 1 {
		if !yield(stem + d.tail[:extra]) {
			return
		}
	}
}

// shortID returns the beginning of a long id, with a digit or letter at its end if it has none.
func shortID(long string) string {
	id, next := long[:minID-1], long[minID-1:minID]
	at := strings.Index(alphabet, next)
	switch {
	case isID(id + next):
	case isDigit(next[0]):
		next = alphabet[10+at : 11+at]
	default:
		next = alphabet[at%10 : at%10+1]
	}
	return id + next
}

// longIDs yields the ids that a value was given when ids were longer.
func (d draft) longIDs(yield func(string) bool) {
	for n := 0; n <= len(d.tail); n += step {
		if !yield(d.id + d.tail[:n]) {
			return
		}
	}
}
