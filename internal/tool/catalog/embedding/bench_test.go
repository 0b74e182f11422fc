package embedding

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkNear30k is what meaning adds to a search, beside the model's own time.
func BenchmarkNear30k(b *testing.B) {
	for _, dimensions := range []int{384, 1536, 3072} {
		random := rand.New(rand.NewPCG(1, 2))
		all := make([]vector, 30000)
		for i := range all {
			v := make([]float32, dimensions)
			for j := range v {
				v[j] = float32(random.NormFloat64())
			}
			all[i] = quantise(v)
		}
		b.Run(fmt.Sprint(dimensions), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				newNear(all[i%len(all)], all).Best(100, func(int) bool { return true })
			}
		})
	}
}
