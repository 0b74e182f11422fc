package vault

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// alphabet is that of Crockford's base32, in lower case.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// step is by how many characters an id that is taken is lengthened.
const step = 4

// draft is a value with what only the id key makes of it.
type draft struct {
	value Value
	id    string // what the id begins with, or is
	tail  string // what it is lengthened by
	mark  []byte // is equal for equal surfaces only
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

// sum is a keyed hash. The texts before the last one have no zero byte.
func (k *keys) sum(use string, t detect.Type, texts ...string) []byte {
	h := hmac.New(sha256.New, k.id)
	h.Write([]byte(use + "\x00" + string(t)))
	for _, text := range texts {
		h.Write([]byte{0})
		h.Write([]byte(text))
	}
	return h.Sum(nil)
}

// ids are the ids that a value may have, the first that is free or its own.
func (d draft) ids(yield func(string) bool) {
	for n := 0; n <= len(d.tail); n += step {
		if !yield(d.id + d.tail[:n]) {
			return
		}
	}
}
