package fault

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxCompared is the number of bytes of a name that are compared.
const maxCompared = 100

// Nearest returns up to limit of names that are similar to name, the most similar
// first, as suggestions for an unknown name. The comparison ignores case; a name
// that contains the other counts as similar.
func Nearest(name string, names []string, limit int) []string {
	type candidate struct {
		name     string
		distance int
	}
	var all []candidate
	name = strings.ToLower(strings.ToValidUTF8(name[:min(len(name), maxCompared)], ""))
	if name == "" {
		return nil
	}
	for _, n := range names {
		if d := distance(name, strings.ToLower(n)); d <= max(2, len(name)/3) && d < len(n) {
			all = append(all, candidate{n, d})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, c := range all[:min(limit, len(all))] {
		out = append(out, c.name)
	}
	return out
}

func distance(name, other string) int {
	if len(other) > 2*maxCompared {
		return maxCompared
	}
	d := levenshtein.ComputeDistance(name, other)
	if d > 1 && len(name) > 2 && len(other) > 2 && (strings.Contains(other, name) || strings.Contains(name, other)) {
		return 1
	}
	return d
}
