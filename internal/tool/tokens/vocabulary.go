package tokens

import (
	_ "embed"
	"encoding/binary"
	"math"
)

// vocabulary is a hash table of the tokens of o200k, to be read where it is: the offsets
// of the buckets and of the end of the last one (4 bytes each, little-endian), then the
// entries of each bucket. An entry is a length (1 byte), a rank (3 bytes) and the
// token. `go test -run TestVocabulary -from FILE` makes it from tiktoken's file
// o200k_base.tiktoken.
//
//go:embed o200k.bin
var vocabulary string

const (
	buckets     = 1 << 16
	entryHeader = 4 // bytes of an entry before the token
	maxToken    = 128

	noRank = math.MaxUint32
)

// rank returns the rank of a token, or noRank if the vocabulary does not contain it.
func rank(text string) uint32 {
	if len(text) > maxToken {
		return noRank
	}
	b := bucket(text)
	for at, end := offset(b), offset(b+1); at < end; {
		entry := vocabulary[at:end]
		size := entryHeader + uint32(entry[0])
		if entry[entryHeader:size] == text {
			return uint32(entry[1]) | uint32(entry[2])<<8 | uint32(entry[3])<<16
		}
		at += size
	}
	return noRank
}

func offset(bucket uint32) uint32 {
	return binary.LittleEndian.Uint32([]byte(vocabulary[4*bucket:][:4]))
}

// bucket returns the bucket of a token: its FNV-1a hash, folded to 16 bits.
func bucket(text string) uint32 {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return (h ^ h>>16) % buckets
}
