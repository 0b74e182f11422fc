package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
)

const (
	keySize  = 32
	hashSize = 2 * sha256.Size // as hexadecimal digits

	hashMark = `,"hash":"`
	prevMark = `,"prev":"`
	seqMark  = `{"seq":`
)

// noHash is the previous hash of the first line.
var noHash = strings.Repeat("0", hashSize)

// signer creates and checks hashes: HMAC-SHA-256 over the bytes of a JSON object up to
// its last member, which is the hash. It is for one goroutine.
type signer struct {
	mac hash.Hash
	hex [hashSize]byte
	sum [sha256.Size]byte
}

func newSigner(key []byte) *signer { return &signer{mac: hmac.New(sha256.New, key)} }

// hash returns the hash of body. It is valid until the next call.
func (s *signer) hash(body []byte) []byte {
	s.mac.Reset()
	s.mac.Write(body)
	hex.Encode(s.hex[:], s.mac.Sum(s.sum[:0]))
	return s.hex[:]
}

// sign adds the hash to an object without its closing brace, and closes it.
func (s *signer) sign(body []byte) []byte {
	h := s.hash(body)
	return append(append(append(body, hashMark...), h...), `"}`...)
}

// verify splits an object into body and hash, and reports whether the hash is correct.
func (s *signer) verify(line []byte) (body, hash []byte, ok bool) {
	body, hash, ok = splitHash(line)
	return body, hash, ok && hmac.Equal(hash, s.hash(body))
}

// splitHash splits an object into body and hash without checking the hash.
func splitHash(line []byte) (body, hash []byte, ok bool) {
	n := len(line) - len(hashMark) - hashSize - len(`"}`)
	if n < 0 {
		return nil, nil, false
	}
	rest, marked := bytes.CutPrefix(line[n:], []byte(hashMark))
	hash, closed := bytes.CutSuffix(rest, []byte(`"}`))
	return line[:n], hash, marked && closed
}

// position returns the number of a line and the hash of the line before.
func position(body []byte) (seq int64, prev []byte, ok bool) {
	rest, marked := bytes.CutPrefix(body, []byte(seqMark))
	digits, _, more := bytes.Cut(rest[:min(len(rest), 20)], []byte(","))
	seq, err := strconv.ParseInt(string(digits), 10, 64)
	if !marked || !more || err != nil || seq < 1 {
		return 0, nil, false
	}
	n := len(body) - hashSize - 1
	if n < 0 || body[len(body)-1] != '"' || !bytes.HasSuffix(body[:n], []byte(prevMark)) {
		return 0, nil, false
	}
	return seq, body[n : n+hashSize], true
}
