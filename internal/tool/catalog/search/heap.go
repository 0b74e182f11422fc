package search

// bounded keeps the n best of the hits added, the worst of them first: a heap.
type bounded struct {
	hits []Hit
	n    int
}

func (b *bounded) add(h Hit) {
	if len(b.hits) < b.n {
		b.hits = append(b.hits, h)
		b.up(len(b.hits) - 1)
		return
	}
	if h.Score >= b.hits[0].Score && better(h, b.hits[0]) < 0 {
		b.hits[0] = h
		b.down(0)
	}
}

func (b *bounded) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if better(b.hits[i], b.hits[parent]) <= 0 {
			return
		}
		b.hits[i], b.hits[parent] = b.hits[parent], b.hits[i]
		i = parent
	}
}

func (b *bounded) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(b.hits) {
			return
		}
		if child+1 < len(b.hits) && better(b.hits[child], b.hits[child+1]) < 0 {
			child++
		}
		if better(b.hits[i], b.hits[child]) >= 0 {
			return
		}
		b.hits[i], b.hits[child] = b.hits[child], b.hits[i]
		i = child
	}
}
