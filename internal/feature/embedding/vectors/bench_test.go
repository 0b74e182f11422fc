package vectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomVectors(random *rand.Rand, n, dimensions int) []vector {
	all := make([]vector, n)
	for i := range all {
		v, sum := make(vector, dimensions), 0.0
		for j := range v {
			v[j] = float32(random.NormFloat64())
			sum += float64(v[j]) * float64(v[j])
		}
		for j := range v {
			v[j] /= float32(math.Sqrt(sum))
		}
		all[i] = v
	}
	return all
}

func TestBestAgreesWithExactSimilarity(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, dimensions := range []int{1, 3, 4, 7, 384} {
		all := randomVectors(random, 2000, dimensions)
		query := all[7]
		all[8] = nil
		exact := func(i int) (sum float64) {
			for j := range query {
				sum += float64(query[j]) * float64(all[i][j])
			}
			return sum
		}
		n := newSimilarities(query, all)
		found := n.Best(len(all), func(tool int) bool { return tool%2 == 1 || tool == 8 })
		if len(found) != 1000 || slices.Contains(found, 8) || n.Score(8) != 0 {
			t.Fatalf("%d dimensions: Best returned %d tools, contains the tool without a vector: %t, which scores %g",
				dimensions, len(found), slices.Contains(found, 8), n.Score(8))
		}
		if best := n.Best(10, func(tool int) bool { return tool%2 == 1 }); !slices.Equal(best, found[:10]) {
			t.Errorf("%d dimensions: Best(10) returned %v; the first of all are %v", dimensions, best, found[:10])
		}
		for i := 1; i < len(found); i++ {
			if before, after := exact(found[i-1]), exact(found[i]); after > before+1e-6 {
				t.Fatalf("%d dimensions: place %d has similarity %g, place %d has %g", dimensions, i-1, before, i, after)
			}
		}
	}
}

// BenchmarkNear30k measures what a search over 30,000 vectors adds to the time of
// the embedding model.
func BenchmarkNear30k(b *testing.B) {
	for _, dimensions := range []int{384, 1536, 3072} {
		all := randomVectors(rand.New(rand.NewPCG(1, 2)), 30000, dimensions)
		b.Run(fmt.Sprint(dimensions), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				newSimilarities(all[i%len(all)], all).Best(100, func(int) bool { return true })
			}
		})
	}
}
