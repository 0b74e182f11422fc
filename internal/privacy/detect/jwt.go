package detect

import (
	"encoding/base64"
	"strings"
)

const maxJWT = 12 << 10

var webTokens = recognizer{
	Type: JWT,
	Anchors: []anchor{
		{First: "e", Has: digit, Least: 15},
		{First: "e", Least: longToken},
		{First: "e", Least: 15, After: ":~.="},
	},
	Find: findJWT,
	Examples: []string{
		"token=«eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U»;",
		"«eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0» and «eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0NTY3ODkwIn0.»",
		"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9, eyJmb28iOiJiYXIifQ.eyJmb28iOiJiYXIifQ.abc and eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.json",
	},
}

// findJWT examines "eyJ", which is base64url for `{"`.
func findJWT(p *passage, start, end int) {
	if !strings.HasPrefix(p.text[start:], "eyJ") || !strings.Contains(decoded(p.text[start:end]), `"alg"`) {
		return
	}
	segments, head := 1, end
	for p.at(end) == '.' && segments < 5 && end-start < maxJWT {
		next := end + 1
		for next < len(p.text) && next-start < maxJWT && p.is(next, tokens) {
			next++
		}
		if segments++; segments > 3 && next == end+1 && p.at(next) != '.' {
			break
		}
		end = next
	}
	switch {
	case segments > 3 || segments == 3 && (p.is(end-1, tokens) || p.text[end-1] == '.'):
		p.add(start, end, 0.99)
	case segments == 2 && isClaims(p.text[head+1:end]): // without its signature
		p.add(start, end, 0.9)
	}
}

// isClaims reports whether the second part of a token begins with a JSON object. The part
// may be truncated.
func isClaims(part string) bool {
	text := decoded(part[:len(part)/4*4])
	return len(text) > 8 && strings.HasPrefix(text, `{"`) && strings.Contains(text, `":`)
}

// decoded decodes base64url. It returns "" if s is not base64url.
func decoded(s string) string {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(b)
}
