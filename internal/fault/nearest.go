package fault

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// longestName is how much of a name is compared, in bytes.
const longestName = 100

// Nearest returns at most most of names that look like name, which is none of
// them, the most alike first: what somebody may have meant. Capitals do not
// count, and a name that holds the other is near.
func Nearest(name string, names []string, most int) []string {
	type near struct {
		name string
		far  int
	}
	var all []near
	name = strings.ToLower(strings.ToValidUTF8(name[:min(len(name), longestName)], ""))
	if name == "" {
		return nil
	}
	for _, n := range names {
		if far := distance(name, strings.ToLower(n)); far <= max(2, len(name)/3) && far < len(n) {
			all = append(all, near{n, far})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(a.far, b.far) })
	var out []string
	for _, n := range all[:min(most, len(all))] {
		out = append(out, n.name)
	}
	return out
}

func distance(name, other string) int {
	if len(other) > 2*longestName {
		return longestName
	}
	far := levenshtein.ComputeDistance(name, other)
	if far > 1 && len(name) > 2 && len(other) > 2 && (strings.Contains(other, name) || strings.Contains(name, other)) {
		return 1
	}
	return far
}
