package detect_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// alone lists values that are found on their own.
var alone = []string{
	"ada@example.com", "(212) 555-0123", "212-555-0123", "+1 415-555-0132", "+49 30 901820", "131-42-4002", "4111 1111 1111 1111",
	"4111-1111-1111-1111",
	"5500005555555559", "378282246310005", "DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "8.8.4.4", "2001:db8::8a2e:370:7334",
	"00:1A:2B:3C:4D:5E",
	"ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek", "0x52908400098527886E0F7030069857D2E4169EE7",
	"postgres://ada:Nm5Kq2xg3ODg3@db.example.com/shop", "912-70-1234",
}

func TestAdjacentValuesAreCovered(t *testing.T) {
	s := scanner(t)
	uncovered := func(text string) int { return wordBytes(text, s.Scan(text)) }
	for _, a := range alone {
		for _, b := range alone {
			for _, sep := range []string{" ", ", ", "\n", "\t", " - ", ": ", "; ", " | "} {
				text := a + sep + b
				if got, want := uncovered(text), uncovered(a)+uncovered(b); got > want {
					t.Errorf("%q: %d letters and digits are not covered, want %d: %v", text, got, want, s.Scan(text))
				}
			}
		}
	}
}

// wordBytes counts the letters and digits outside of all findings.
func wordBytes(text string, found []detect.Finding) (n int) {
	for i, c := range []byte(text) {
		word := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		for _, f := range found {
			word = word && (i < f.Start || i >= f.End)
		}
		if word {
			n++
		}
	}
	return n
}
