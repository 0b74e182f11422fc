package encoded

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// folded finds known values whose characters are written as others that look the same: letters with
// separate marks (NFD, as in file names of macOS), digits of other scripts, full-width characters, and
// invisible characters between.
func (f Finder) folded(text string) []detect.Finding {
	if f.Known == nil {
		return nil
	}
	f.Scan = nil
	s := sheet{Finder: f, source: text, folded: true}
	at, until := 0, 0 // as in unescaped
	for i := nextHigh(text, 0); i < len(text); i = nextHigh(text, i) {
		r, size := utf8.DecodeRuneInString(text[i:])
		start, end := i, i+size
		var is string
		switch {
		case isMark(r):
			if start, end = cluster(text, max(at, 0), i, end); start < at {
				i = end
				continue
			}
			is = norm.NFC.String(text[start:end])
		default:
			is = fold(r)
		}
		if is == text[start:end] {
			i = end
			continue
		}
		if from := max(0, start-escapeReach); from > until {
			s.plain(at, until)
			s.gap()
			at = border(text, from, -1)
		}
		s.plain(at, start)
		for k := range len(is) {
			s.put(is[k], start, end)
		}
		i, at, until = end, end, border(text, min(len(text), end+escapeReach), 1)
	}
	s.plain(at, until)
	return s.done()
}

// nextHigh returns the position of the next byte outside of ASCII, from i, or the length of text.
func nextHigh(text string, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if t := text[i : i+8]; (t[0]|t[1]|t[2]|t[3]|t[4]|t[5]|t[6]|t[7])&utf8.RuneSelf != 0 {
			break
		}
	}
	for i < len(text) && text[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// isMark reports whether a character is part of the letter before it, in a form that can be composed.
func isMark(r rune) bool {
	return r >= 0x300 && r < 0x370 || r >= 0x653 && r < 0x656 || r == 0x3099 || r == 0x309A || r >= 0x1161 && r < 0x1200
}

// cluster returns the range of the letter whose mark is text[i:end], which begins at least at from, and all
// of its marks.
func cluster(text string, from, i, end int) (int, int) {
	_, size := utf8.DecodeLastRuneInString(text[from:i])
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !isMark(r) {
			break
		}
		end += n
	}
	return i - size, end
}

// fold returns what a character is written for, itself unless it is listed here.
func fold(r rune) string {
	switch {
	case r >= 0xFF01 && r <= 0xFF5E: // full width; its punctuation is ordinary in Chinese
		if c := r - 0xFEE0; unicode.IsLetter(c) || unicode.IsDigit(c) || c == '@' || c == '.' || c == '-' || c == '_' {
			return string(c)
		}
	case r >= 0x1D400 && r <= 0x1D7FF, r >= 0xFB00 && r <= 0xFB06: // mathematical letters, ligatures
		return norm.NFKC.String(string(r))
	case isInvisible(r):
		return ""
	case r >= 0x660 && unicode.IsDigit(r):
		return string('0' + digitValue(r))
	}
	return string(r)
}

// isInvisible reports whether a character has no width.
func isInvisible(r rune) bool {
	return r == 0xAD || r == 0x34F || r == 0x61C || r >= 0x200B && r <= 0x200F || r >= 0x202A && r <= 0x202E ||
		r >= 0x2060 && r <= 0x206F ||
		r >= 0xFE00 && r <= 0xFE0F || r == 0xFEFF
}

// digitValue returns the value of a decimal digit: scripts have ten in a row.
func digitValue(r rune) rune {
	for _, all := range unicode.Nd.R16 {
		if rune(all.Lo) <= r && r <= rune(all.Hi) {
			return (r - rune(all.Lo)) % 10
		}
	}
	for _, all := range unicode.Nd.R32 {
		if rune(all.Lo) <= r && r <= rune(all.Hi) {
			return (r - rune(all.Lo)) % 10
		}
	}
	return 0
}
