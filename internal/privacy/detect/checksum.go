package detect

import (
	"crypto/sha256"
	"math/big"
	"strings"

	"golang.org/x/crypto/sha3"
)

// luhn verifies the check digit of ISO/IEC 7812.
func luhn(all string) bool {
	sum := 0
	for i := range len(all) {
		d := int(all[len(all)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// mod97 verifies the checksum of ISO 13616: the first four characters move to the end,
// letters count from ten, and the remainder is one.
func mod97(all []byte) bool {
	rest := 0
	for i := range all {
		switch b := all[(i+4)%len(all)]; {
		case class[b]&digit != 0:
			rest = (rest*10 + int(b-'0')) % 97
		default:
			rest = (rest*100 + int(b-'A') + 10) % 97
		}
	}
	return rest == 1
}

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// base58Firsts are the first letters of the versions of base58check.
const base58Firsts = "13LMD9Amn2t"

// base58check verifies an address of Bitcoin or a derived currency: a version, which
// determines the first letter, 20 bytes, and four bytes of a double SHA-256.
func base58check(s string) bool {
	n, radix := new(big.Int), big.NewInt(58)
	for i := range len(s) {
		d := strings.IndexByte(base58, s[i])
		if d < 0 {
			return false
		}
		n.Mul(n, radix).Add(n, big.NewInt(int64(d)))
	}
	var raw [25]byte
	if n.BitLen() > 8*len(raw) {
		return false
	}
	n.FillBytes(raw[:])
	sum := sha256.Sum256(raw[:21])
	sum = sha256.Sum256(sum[:])
	return string(sum[:4]) == string(raw[21:])
}

const bech32Letters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// bech32 verifies an address in the format of BIP 173 or BIP 350.
func bech32(s string) bool {
	low := strings.ToLower(s)
	if low != s && strings.ToUpper(s) != s {
		return false
	}
	prefix, data, ok := strings.Cut(low, "1")
	if !ok || prefix != "bc" && prefix != "tb" && prefix != "ltc" && prefix != "bcrt" || len(data) < 14 {
		return false
	}
	sum := uint32(1)
	for i := range len(prefix) {
		sum = polymod(sum, uint32(prefix[i]>>5))
	}
	sum = polymod(sum, 0)
	for i := range len(prefix) {
		sum = polymod(sum, uint32(prefix[i]&31))
	}
	for i := range len(data) {
		d := strings.IndexByte(bech32Letters, data[i])
		if d < 0 {
			return false
		}
		sum = polymod(sum, uint32(d))
	}
	return sum == 1 || sum == 0x2bc830a3
}

func polymod(sum, value uint32) uint32 {
	top := sum >> 25
	sum = sum&0x1ffffff<<5 ^ value
	for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
		if top>>i&1 == 1 {
			sum ^= g
		}
	}
	return sum
}

// eip55 verifies the checksum of an Ethereum address, which is encoded in its capital
// letters. An address in one case has none and is accepted.
func eip55(s string) bool {
	low := strings.ToLower(s)
	if s == low || s == strings.ToUpper(s) {
		return strings.Trim(low, low[:1]) != "" // not the null address or similar
	}
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(low))
	sum := h.Sum(nil)
	for i := range len(s) {
		nibble := sum[i/2] >> (4 * (1 - i%2)) & 15
		if class[s[i]]&letter != 0 && (nibble >= 8) != (class[s[i]]&upper != 0) {
			return false
		}
	}
	return true
}
