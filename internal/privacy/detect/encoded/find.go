package encoded

import "github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"

// Find returns the encoded values in text, in order, without overlaps. A finding covers
// everything that has to be replaced to remove the value.
func (f Finder) Find(text string) []detect.Finding {
	if f.Scan == nil && f.Known == nil || len(text) < minValue {
		return nil
	}
	found := f.runs(text)
	found = append(found, f.escaped(text)...)
	found = append(found, f.hexPairs(text)...)
	found = append(found, f.squeezed(text)...)
	found = append(found, f.slugs(text)...)
	found = append(found, f.folded(text)...)
	if len(found) == 0 {
		return nil
	}
	for i := range found {
		found[i].Start, found[i].End = widen(text, found[i].Start, found[i].End)
	}
	return detect.Resolve(found, text)
}
