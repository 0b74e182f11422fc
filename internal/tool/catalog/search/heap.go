package search

// topHits keeps the n best hits in a heap with the worst at the root.
type topHits struct {
	hits []Hit
	n    int
}

func (b *topHits) add(h Hit) {
	if len(b.hits) < b.n {
		b.hits = append(b.hits, h)
		b.up(len(b.hits) - 1)
		return
	}
	if h.Score >= b.hits[0].Score && compareHits(h, b.hits[0]) < 0 {
		b.hits[0] = h
		b.down(0)
	}
}

func (b *topHits) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if compareHits(b.hits[i], b.hits[parent]) <= 0 {
			return
		}
		b.hits[i], b.hits[parent] = b.hits[parent], b.hits[i]
		i = parent
	}
}

func (b *topHits) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(b.hits) {
			return
		}
		if child+1 < len(b.hits) && compareHits(b.hits[child], b.hits[child+1]) < 0 {
			child++
		}
		if compareHits(b.hits[i], b.hits[child]) >= 0 {
			return
		}
		b.hits[i], b.hits[child] = b.hits[child], b.hits[i]
		i = child
	}
}
