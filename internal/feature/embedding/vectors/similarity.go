package vectors

import (
	"math"
	"slices"
)

// vector has length 1; nil means that a tool has none yet.
type vector []float32

// dot returns the dot product of two vectors with the same dimensions, which for
// vectors of length 1 is their cosine similarity. Four sums let the processor
// overlap additions.
func dot(a, b vector) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return float64(s0 + s1 + s2 + s3)
}

// Similarities holds the similarity of every tool to one query.
type Similarities struct {
	similarities []float64 // NaN for a tool without a vector
	mean         float64
	deviation    float64
}

func newSimilarities(query vector, vectors []vector) *Similarities {
	n := &Similarities{similarities: make([]float64, len(vectors)), deviation: 1}
	count, sum, squares := 0.0, 0.0, 0.0
	for i, v := range vectors {
		if v == nil {
			n.similarities[i] = math.NaN()
			continue
		}
		s := dot(query, v)
		n.similarities[i] = s
		count, sum, squares = count+1, sum+s, squares+s*s
	}
	if count == 0 {
		return n
	}
	n.mean = sum / count
	if v := squares/count - n.mean*n.mean; v > 1e-9 {
		n.deviation = math.Sqrt(v)
	}
	return n
}

// Score returns by how many standard deviations the similarity of a tool exceeds the
// mean of all tools, and 0 for a tool without a vector. Absolute similarities
// differ between models; standard deviations are comparable.
func (n *Similarities) Score(tool int) float64 {
	s := n.similarities[tool]
	if math.IsNaN(s) {
		return 0
	}
	return (s - n.mean) / n.deviation
}

// Best returns up to limit tools for which include returns true, the most similar
// first. Limit is small: inserting into a short list is faster than sorting all.
func (n *Similarities) Best(limit int, include func(tool int) bool) []int {
	var best []int
	for i, s := range n.similarities {
		full := len(best) == limit
		if math.IsNaN(s) || full && (limit == 0 || s <= n.similarities[best[limit-1]]) || !include(i) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, s, func(tool int, s float64) int {
			if n.similarities[tool] >= s {
				return -1
			}
			return 1
		})
		if full {
			best = best[:limit-1]
		}
		best = slices.Insert(best, at, i)
	}
	return best
}
