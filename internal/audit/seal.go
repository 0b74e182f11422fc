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

// noHash stands before the first line.
var noHash = strings.Repeat("0", hashSize)

// sealer makes and checks hashes: HMAC-SHA-256 over the bytes of a JSON object up
// to its last member, which the hash is. It is for one goroutine.
type sealer struct {
	mac hash.Hash
	hex [hashSize]byte
	sum [sha256.Size]byte
}

func newSealer(key []byte) *sealer { return &sealer{mac: hmac.New(sha256.New, key)} }

// hash is good until the next one.
func (s *sealer) hash(body []byte) []byte {
	s.mac.Reset()
	s.mac.Write(body)
	hex.Encode(s.hex[:], s.mac.Sum(s.sum[:0]))
	return s.hex[:]
}

// seal completes an object that lacks its closing brace.
func (s *sealer) seal(body []byte) []byte {
	h := s.hash(body)
	return append(append(append(body, hashMark...), h...), `"}`...)
}

// open returns an object without its hash, and that; false if the hash is not
// what the bytes have.
func (s *sealer) open(line []byte) (body, hash []byte, ok bool) {
	body, hash, ok = parts(line)
	return body, hash, ok && hmac.Equal(hash, s.hash(body))
}

// parts takes an object apart, whatever its hash says.
func parts(line []byte) (body, hash []byte, ok bool) {
	n := len(line) - len(hashMark) - hashSize - len(`"}`)
	if n < 0 {
		return nil, nil, false
	}
	rest, marked := bytes.CutPrefix(line[n:], []byte(hashMark))
	hash, closed := bytes.CutSuffix(rest, []byte(`"}`))
	return line[:n], hash, marked && closed
}

// place reads where a line says that it is in the chain.
func place(body []byte) (seq int64, prev []byte, ok bool) {
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
