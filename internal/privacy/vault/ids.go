package vault

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// alphabet is Crockford's base32 in lower case.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// step is the number of characters by which an id that is taken is extended.
const step = 4

// draft is a value with everything that is computed from it with the id key.
type draft struct {
	value Value
	id    string // the shortest id
	tail  string // extends the id
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
	for n := 0; n <= len(d.tail); n += step {
		if !yield(d.id + d.tail[:n]) {
			return
		}
	}
}
