package detect

import "strings"

// Byte classes.
const (
	upper   = 1 << iota
	lower   // a letter, as is upper
	digit   //
	joint   // '-' and '_', which join the parts of a token
	nonHex  // a letter that is not a hexadecimal digit
	trigger // a byte at which recognizers are tried
	high    // part of a multi-byte character
	next    // after a token, a byte that makes it worth examining
)

const (
	letter = upper | lower
	alnum  = letter | digit
	tokens = alnum | joint
)

var class = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= '0' && b <= '9':
			c[b] = digit
		case b >= 'a' && b <= 'z':
			c[b] = lower
		case b >= 'A' && b <= 'Z':
			c[b] = upper
		case b == '-' || b == '_':
			c[b] = joint
		case b >= 0x80:
			c[b] = high
		}
		if lowered := b | 0x20; c[b]&letter != 0 && lowered > 'f' {
			c[b] |= nonHex
		}
	}
	for _, b := range []byte("@:+(~") {
		c[b] |= trigger
	}
	for _, b := range []byte(":~.=") {
		c[b] |= next
	}
	return c
}()

func isDigits(s string) bool {
	for i := range len(s) {
		if class[s[i]]&digit == 0 {
			return false
		}
	}
	return true
}

func countDigits(s string) (n int) {
	for i := range len(s) {
		if class[s[i]]&digit != 0 {
			n++
		}
	}
	return n
}

// decimal returns the value of a text of digits.
func decimal(s string) (n int) {
	for i := range len(s) {
		n = 10*n + int(s[i]-'0')
	}
	return n
}

func hexadecimal(s string) bool {
	for i := range len(s) {
		if class[s[i]]&alnum == 0 || class[s[i]]&nonHex != 0 {
			return false
		}
	}
	return true
}

// mixed reports whether s has a digit, which words do not have.
func mixed(s string) bool {
	return strings.ContainsAny(s, "0123456789")
}
