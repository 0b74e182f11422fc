package fault

import (
	"cmp"
	"slices"
	"strings"
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
	d := EditDistance(name, other)
	if d > 1 && len(name) > 2 && len(other) > 2 && (strings.Contains(other, name) || strings.Contains(name, other)) {
		return 1
	}
	return d
}

// EditDistance returns the number of characters to insert, delete or replace to turn
// a into b (Levenshtein distance).
func EditDistance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1) // distances of the part of from so far to each prefix of to
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			replaced := diagonal
			if r != s {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(to)]
}
