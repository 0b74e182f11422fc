package embedding

import (
	"cmp"
	"math"
	"slices"
)

// Near says how near tools are to one query.
type Near struct {
	query  vector
	of     []vector
	middle float64 // of the similarities of all tools
	spread float64
}

// sampled is how many tools are looked at to learn the middle and the spread.
const sampled = 1000

func newNear(query vector, of []vector) *Near {
	n := &Near{query: query, of: of, spread: 1}
	count, sum, squares := 0.0, 0.0, 0.0
	for i := 0; i < len(of); i += 1 + len(of)/sampled {
		if of[i].steps != nil {
			s := similarity(query, of[i])
			count, sum, squares = count+1, sum+s, squares+s*s
		}
	}
	if count == 0 {
		return n
	}
	n.middle = sum / count
	if v := squares/count - n.middle*n.middle; v > 1e-9 {
		n.spread = math.Sqrt(v)
	}
	return n
}

// To is how much nearer a tool is to the query than tools are, in standard
// deviations; 0 for one without a vector. Models differ in what they call near,
// and this makes them comparable.
func (n *Near) To(tool int) float64 {
	if n.of[tool].steps == nil {
		return 0
	}
	return (similarity(n.query, n.of[tool]) - n.middle) / n.spread
}

// looks is how many tools of those most alike in signs are compared exactly.
const looks = 500

// Best returns at most most tools of those that are in, the nearest first.
func (n *Near) Best(most int, in func(tool int) bool) []int {
	distances, limit := n.distances(in)
	var found []int
	for i, d := range distances {
		if int(d) <= limit {
			found = append(found, i)
		}
	}
	near := make(map[int]float64, len(found))
	for _, i := range found {
		near[i] = n.To(i)
	}
	slices.SortFunc(found, func(a, b int) int { return cmp.Or(cmp.Compare(near[b], near[a]), cmp.Compare(a, b)) })
	return found[:min(most, len(found))]
}

// out is the distance of tools that are not to be found.
const out = math.MaxUint16

// distances says in how many signs each tool differs from the query, and up to
// which distance there are enough tools.
func (n *Near) distances(in func(tool int) bool) (distances []uint16, limit int) {
	distances = make([]uint16, len(n.of))
	counts := make([]int, len(n.query.steps)+1)
	for i, v := range n.of {
		distances[i] = out
		if v.steps != nil && in(i) {
			d := apart(n.query, v)
			distances[i] = uint16(d)
			counts[d]++
		}
	}
	total := 0
	for d, c := range counts {
		if total += c; total >= looks {
			return distances, d
		}
	}
	return distances, len(counts)
}
