package search

import "math/rand/v2"

// Weights are the weights of an index.
type Weights = weights

// NewWeighted is New with other weights.
func NewWeighted(docs []Doc, w Weights) *Index { return newIndex(docs, w) }

// SetSimilarity changes the weight of similarity. No search may run.
func (x *Index) SetSimilarity(weight float64) { x.weights.similarity = weight }

// RandomWeights returns weights that do not depend on those of New.
func RandomWeights(r *rand.Rand) Weights {
	between := func(low, high float64) float64 { return low + (high-low)*r.Float64() }
	return Weights{
		segment: float32(between(0, 1)), server: float32(between(0, 1)), name: between(0, 1), cover: between(0, .3),
		action: between(0, .3), penalty: between(0, .3), pair: between(0, .5),
		fields: [fields]float64{nameField: between(1, 5), serverField: between(0, 5), firstField: between(1, 5), restField: between(.1, 2),
			paramsField: between(0, 2), aboutField: between(0, 2), usesField: 1},
	}
}
