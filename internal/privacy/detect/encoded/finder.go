// Package encoded finds personal data that does not stand in a text as it is:
// encoded, escaped, or wrapped. A Finder's Find looks for those in one text, Across for
// what goes over the ends of texts.
//
// The words: what is decoded is written onto a sheet, which remembers of each byte
// where it came from; a stretch is what decodes to text, and what decodes to
// anything else is passed over; a plain finding is one that stands in the text
// itself, which others find.
//
// One layer is taken off, never two. The package keeps out who prints a value
// without thinking; code that means to smuggle one finds a way, and always will.
// Work grows with the length of the text and with nothing else. A Finder is as
// safe for concurrent use as its functions are. There is no I/O.
package encoded

import (
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Finder looks behind disguises by means of who finds what is plain.
type Finder struct {
	Scan     func(text string) []detect.Finding             // detects, as detect.Scanner.Scan does; nil means that nothing is detected
	Known    func(text string) []detect.Finding             // finds values that are known, as known.Index.Find does; nil means that there are none
	Squeezed func(text string, gaps []int) []detect.Finding // finds known values in a text without gaps, as known.Index.FindSqueezed does; nil means that there are none
}

const (
	sure       = 0.8 // the score that what is detected behind a disguise needs
	shortest   = 5   // bytes of a value that is worth a look
	fewDigits  = 7   // a shorter number is found by chance: in groups, or between bytes of no text
	mostlyText = 11  // bytes of text between bytes of none that detection is trusted with
)

// Find returns the places in text that hold a value in disguise, in order,
// without overlaps. A place is all that has to go for the value to be gone.
func (f Finder) Find(text string) []detect.Finding {
	if f.Scan == nil && f.Known == nil || len(text) < shortest {
		return nil
	}
	found := f.runs(text)
	found = append(found, f.escaped(text)...)
	found = append(found, f.hexPairs(text)...)
	found = append(found, f.squeezed(text)...)
	if len(found) == 0 {
		return nil
	}
	for i := range found {
		found[i].Start, found[i].End = widen(text, found[i].Start, found[i].End)
	}
	return detect.Resolve(found, text)
}

// widen moves the ends of a place to where runes begin.
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

// fewOnly reports whether a value is a number with few digits.
func fewOnly(value string) bool {
	if len(value) >= fewDigits {
		return false
	}
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return false
		}
	}
	return true
}
