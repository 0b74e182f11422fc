package vault

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Token is a type and an id: "[EMAIL_k7q2m9x4]".
type Token string

// Type returns the type of the value, "" if t is not a token.
func (t Token) Type() detect.Type {
	typ, _, _ := t.parts()
	return typ
}

// parts splits a token. Foreign tokens are not tokens.
func (t Token) parts() (typ detect.Type, id string, ok bool) {
	p, ok := parseToken(string(t), 0)
	if !ok || p.Foreign > 0 || p.End != len(t) {
		return "", "", false
	}
	i := strings.LastIndexByte(string(t), '_')
	return detect.Type(t[1:i]), string(t[i+1 : len(t)-1]), true
}

func token(t detect.Type, id string) Token { return Token("[" + string(t) + "_" + id + "]") }

// RedactedToken returns the replacement of a value that is not stored. It does not
// have the syntax of a token.
func RedactedToken(t detect.Type) Token { return token(t, "withheld") }

// TokenSpan is a part of a text with the syntax of a token: text[Start:End].
type TokenSpan struct {
	Start, End int
	Foreign    int // number of '~' that mark it as foreign
}

// FindTokens returns all parts of text with the syntax of a token, including foreign
// ones, in order.
func FindTokens(text string) []TokenSpan {
	var found []TokenSpan
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '[')
		if i < 0 {
			return found
		}
		at += i
		if p, ok := parseToken(text, at); ok {
			found = append(found, p)
			at = p.End
		} else {
			at++
		}
	}
}

const (
	minType, maxType = 2, 32
	minID, maxID     = 8, 64
	longID           = 16 // the shortest id of earlier versions; shorter ids have a letter and a digit
)

// parseToken parses the token that begins at text[start].
func parseToken(text string, start int) (TokenSpan, bool) {
	i := start
	if i == len(text) || text[i] != '[' {
		return TokenSpan{}, false
	}
	i++
	typ := i + prefixLen(text[i:], len(text), isMark)
	end := typ + prefixLen(text[typ:], maxType+maxID+2, isTokenByte)
	if end == len(text) || text[end] != ']' {
		return TokenSpan{}, false
	}
	under := strings.LastIndexByte(text[typ:end], '_')
	if under < 0 || !isType(text[typ:typ+under]) || !isID(text[typ+under+1:end]) {
		return TokenSpan{}, false
	}
	return TokenSpan{Start: start, End: end + 1, Foreign: typ - i}, true
}

// prefixLen returns the length of the longest prefix of text, at most most, whose
// bytes satisfy kind.
func prefixLen(text string, most int, kind func(byte) bool) int {
	n := 0
	for n < len(text) && n < most && kind(text[n]) {
		n++
	}
	return n
}

func isMark(c byte) bool      { return c == '~' }
func isUpper(c byte) bool     { return c >= 'A' && c <= 'Z' }
func isTypeByte(c byte) bool  { return isUpper(c) || c >= '0' && c <= '9' || c == '_' }
func isIDByte(c byte) bool    { return strings.IndexByte(alphabet, c) >= 0 }
func isTokenByte(c byte) bool { return isTypeByte(c) || isIDByte(c) }

func isType(s string) bool {
	return len(s) >= minType && len(s) <= maxType && isUpper(s[0]) && prefixLen(s, maxType, isTypeByte) == len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isID reports whether s can be an id. Words and numbers, as in "[TICKET_20261128]", cannot.
func isID(s string) bool {
	if len(s) < minID || len(s) > maxID || prefixLen(s, maxID, isIDByte) != len(s) {
		return false
	}
	digits := 0
	for i := range len(s) {
		if isDigit(s[i]) {
			digits++
		}
	}
	return len(s) >= longID || digits > 0 && digits < len(s)
}
