package encoded

import (
	"slices"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// reversed looks for known values that stand with their last character first. A
// long text is read in parts that overlap.
func (f Finder) reversed(text string) (found []detect.Finding) {
	if f.Known == nil {
		return nil
	}
	var buf []byte
	for lo := 0; lo < len(text); lo += full {
		start := border(text, max(0, lo-again), -1)
		end := border(text, min(len(text), lo+full), 1)
		part := text[start:end]
		buf = backwards(append(buf[:0], part...))
		turned := string(buf)
		for _, one := range f.Known(turned) {
			value := turned[one.Start:one.End]
			one.Start, one.End = end-one.End, end-one.Start
			cut := one.Start == start && start > 0 || one.End == end && end < len(text)
			if !cut && !fewOnly(value) && text[one.Start:one.End] != value {
				found = append(found, one)
			}
		}
	}
	return found
}

// backwards turns the order of characters around.
func backwards(b []byte) []byte {
	slices.Reverse(b)
	for i := 0; i < len(b); i++ {
		if b[i] < utf8.RuneSelf {
			continue
		}
		lead := i
		for lead < len(b) && lead-i < utf8.UTFMax-1 && !utf8.RuneStart(b[lead]) {
			lead++
		}
		if lead < len(b) {
			slices.Reverse(b[i : lead+1])
			if r, size := utf8.DecodeRune(b[i:]); r == utf8.RuneError || size != lead-i+1 {
				slices.Reverse(b[i : lead+1])
				continue
			}
			i = lead
		}
	}
	return b
}
