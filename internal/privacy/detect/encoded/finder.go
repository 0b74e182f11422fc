// Package encoded finds personal data that is encoded, escaped or wrapped. A Finder's
// Find searches one text, Across searches for values that span several.
//
// Terms: a sheet holds decoded text, with the source position of each byte; a text run is
// a part of decoded bytes that is text; a plain finding is one in the text itself, which
// other packages find.
//
// The package decodes one layer. It finds values that code prints in a common form;
// code can always smuggle a value out deliberately. The time is linear in the length of
// the text. A Finder is as safe for concurrent use as its functions are. There is no I/O.
package encoded

import (
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Finder finds encoded values with functions that find plain ones.
type Finder struct {
	Scan  func(text string) []detect.Finding // detects values, as detect.Scanner.Scan does; nil means none
	Known func(text string) []detect.Finding // finds known values, as known.Index.Find does; nil means none
	// finds known values in a text without gaps, as known.Index.FindSqueezed does; nil means none
	Squeezed func(text string, gaps []int) []detect.Finding
	// finds known values of several words that are written as one, as known.Index.FindJoined does; nil means none
	Joined func(text string, gaps []int) []detect.Finding
	Whole  func(text string) []detect.Finding // detects also values that Scan omits, to find the end of a value; nil means Scan
}

const (
	minScore   = 0.8 // of a value detected in decoded text
	minValue   = 5   // bytes of a value
	minDigits  = 7   // of a number in groups or between bytes that are not text: shorter ones occur by chance
	minTextRun = 11  // bytes of text between other bytes, for detection to be reliable
)

// isShortNumber reports whether a value is a number of less than minDigits digits.
func isShortNumber(value string) bool {
	if len(value) >= minDigits {
		return false
	}
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return false
		}
	}
	return true
}

// widen extends a range to rune boundaries.
func widen(text string, start, end int) (int, int) {
	return border(text, start, -1), border(text, end, 1)
}

func border(text string, i, step int) int {
	for back := 1; back < utf8.UTFMax && back <= i && i < len(text); back++ {
		if _, size := utf8.DecodeRuneInString(text[i-back:]); size > back {
			if step < 0 {
				return i - back
			}
			return i - back + size
		}
	}
	return i
}
