package redact

import (
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

// finder finds personal data and secrets in texts.
type finder struct {
	scanner *detect.Scanner
	vault   vaultSession
	exempt  func(t detect.Type, value string) bool // values that need not be replaced
	// skip reports detected values that are not private where they are; nil: none.
	skip func(f detect.Finding, key, text string) bool
}

// find returns the values in a text: known values, detected values, and both in
// encoded form.
func (v finder) find(key, text string) []detect.Finding {
	all := append(v.findPlain(key, text), v.keepPrivate(v.disguises().Find(text), text)...)
	if len(all) < 2 {
		return all
	}
	return detect.Resolve(all, text)
}

// findPlain returns the values in a text that are not encoded. Text between known
// values is scanned a second time without them. A detected value that consists of
// known values is dropped.
func (v finder) findPlain(key, text string) []detect.Finding {
	known := v.known(text)
	found := v.detect(key, text)
	if len(known) == 0 {
		return found
	}
	found = append(found, v.detect(key, blank(text, known))...)
	found = slices.DeleteFunc(found, func(f detect.Finding) bool { return isComposedOf(f, known, text) })
	return detect.Resolve(append(found, known...), text)
}

func (v finder) detect(key, text string) []detect.Finding {
	found := v.keepPrivate(v.scanner.Detect(key, text), text)
	if v.skip == nil {
		return found
	}
	return slices.DeleteFunc(found, func(f detect.Finding) bool { return v.skip(f, key, text) })
}

func (v finder) known(text string) []detect.Finding { return v.keepPrivate(v.vault.find(text), text) }

func (v finder) squeezed(text string, gaps []int) []detect.Finding {
	return v.keepPrivate(v.vault.findSqueezed(text, gaps), text)
}

func (v finder) scan(text string) []detect.Finding {
	return v.keepPrivate(v.scanner.Scan(text), text)
}

// keepPrivate removes exempt values from found.
func (v finder) keepPrivate(found []detect.Finding, text string) []detect.Finding {
	return slices.DeleteFunc(found, func(f detect.Finding) bool { return v.exempt(f.Type, text[f.Start:f.End]) })
}

// disguises returns a finder of encoded values.
func (v finder) disguises() encoded.Finder {
	return encoded.Finder{Scan: v.scan, Known: v.known, Squeezed: v.squeezed, Whole: v.scanner.Scan}
}

// findSpread returns the values that span several pieces, and the cells of tables
// whose lines are the pieces.
func (v finder) findSpread(pieces []string) []encoded.Spread {
	cells := columns(v.scanner, pieces)
	cells = slices.DeleteFunc(cells, func(s encoded.Spread) bool {
		at := s.Parts[0]
		return v.exempt(s.Type, pieces[at.Piece][at.Start:at.End])
	})
	return append(v.disguises().Across(pieces), cells...)
}

// blank returns text with known values overwritten by zero bytes, which no value
// contains.
func blank(text string, known []detect.Finding) string {
	b := []byte(text)
	for _, f := range known {
		clear(b[f.Start:f.End])
	}
	return string(b)
}

// isComposedOf reports whether a detected value consists of known values of other
// types and of separators: "555-0123-bob@corp.com". Names and addresses may contain
// other values.
func isComposedOf(f detect.Finding, known []detect.Finding, text string) bool {
	if f.Type == detect.Name || f.Type == detect.Address {
		return false
	}
	at := f.Start
	for _, k := range known {
		if k.End > f.Start && k.Start < f.End {
			if hasWord(text[at:max(at, k.Start)]) {
				return false
			}
			at = k.End
		}
	}
	return at > f.Start && !hasWord(text[min(at, f.End):f.End])
}

// columns returns the cells of tables whose lines are the pieces, as in line-by-line
// output.
func columns(scanner *detect.Scanner, pieces []string) (cells []encoded.Spread) {
	var b strings.Builder
	starts := make([]int, len(pieces))
	for i, p := range pieces {
		starts[i] = b.Len()
		b.WriteString(strings.TrimRight(p, "\r\n"))
		b.WriteByte('\n')
	}
	for _, f := range scanner.Table(b.String()) {
		n, here := slices.BinarySearch(starts, f.Start)
		if !here {
			n--
		}
		at := encoded.Part{Piece: n, Start: f.Start - starts[n], End: f.End - starts[n]}
		cells = append(cells, encoded.Spread{Type: f.Type, Score: f.Score, Parts: []encoded.Part{at}})
	}
	return cells
}

// findNothing is for a pass that only marks or replaces tokens.
func findNothing(string, string) []detect.Finding { return nil }
