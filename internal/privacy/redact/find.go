package redact

import (
	"cmp"
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
	known := packed(v.known(text))
	if len(known.at) == 0 {
		return v.detect(key, text)
	}
	composed := func(f detect.Finding) bool { return known.compose(f, text) }
	found := slices.DeleteFunc(v.detect(key, known.blank(text)), composed) // while less is in memory
	found = append(found, slices.DeleteFunc(v.detect(key, text), composed)...)
	return detect.Resolve(known.appendTo(found), text)
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
	f := encoded.Finder{Scan: v.scan, Known: v.known, Squeezed: v.squeezed, Whole: v.scanner.Scan}
	if v.vault.vault == nil {
		return f
	}
	if joined := v.vault.vault.Index.Joined(); joined != nil {
		f.Joined = func(text string, gaps []int) []detect.Finding { return v.keepPrivate(joined(text, gaps), text) }
	}
	return f
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

// knownValues are findings of known values, in order, without overlaps. They take a third of the
// memory of findings: a large text has hundreds of thousands.
type knownValues struct {
	at    []knownValue
	types []detect.Type
}

type knownValue struct{ start, end, typ int32 }

func packed(all []detect.Finding) (k knownValues) {
	k.at = make([]knownValue, len(all))
	for i, f := range all {
		n := slices.Index(k.types, f.Type)
		if n < 0 {
			n = len(k.types)
			k.types = append(k.types, f.Type)
		}
		k.at[i] = knownValue{int32(f.Start), int32(f.End), int32(n)}
	}
	return k
}

// appendTo appends the findings.
func (k knownValues) appendTo(all []detect.Finding) []detect.Finding {
	all = slices.Grow(all, len(k.at))
	for _, v := range k.at {
		all = append(all, detect.Finding{Type: k.types[v.typ], Start: int(v.start), End: int(v.end), Score: 1})
	}
	return all
}

// blank returns text with the values overwritten by zero bytes, which no value contains.
func (k knownValues) blank(text string) string {
	var b strings.Builder // its text is not copied again
	b.Grow(len(text))
	at := int32(0)
	for _, v := range k.at {
		b.WriteString(text[at:v.start])
		for at = v.start; at < v.end; at++ {
			b.WriteByte(0)
		}
	}
	b.WriteString(text[at:])
	return b.String()
}

// compose reports whether a detected value consists of known values of other types and of
// separators: "555-0123-bob@corp.com". Names and addresses may contain other values.
func (k knownValues) compose(f detect.Finding, text string) bool {
	if f.Type == detect.Name || f.Type == detect.Address {
		return false
	}
	at := f.Start
	first, _ := slices.BinarySearchFunc(k.at, f.Start, func(v knownValue, start int) int { return cmp.Compare(int(v.end), start+1) })
	for _, v := range k.at[first:] {
		if int(v.start) >= f.End {
			break
		}
		if hasWord(text[at:max(at, int(v.start))]) {
			return false
		}
		at = int(v.end)
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

// findNothing is for a redaction that only marks or replaces tokens.
func findNothing(string, string) []detect.Finding { return nil }
