package search

import (
	"math"
	"slices"
	"sync"
)

// ranking holds the data for scoring.
type ranking struct {
	docs     postings
	servers  postings      // each server as one doc with the words of all its tools
	server   []int32       // by doc
	features []docFeatures // by doc

	serverCount int
}

// docFeatures holds the data of one doc for rescoring.
type docFeatures struct {
	name    []int32 // terms of the name that distinguish it from others
	weight  float32 // sum of their IDF
	opening []int32 // terms of the name and the first sentence, in order
	action  action
}

// postings lists the docs or servers that have each term.
type postings struct {
	of  [][]posting // by term
	idf []float32   // inverse document frequency, by term
}

type posting struct {
	id     int32   // of a doc or a server
	impact float32 // saturated term frequency, from 0 to 1
}

// Parameters of BM25F.
const (
	saturation       = .35 // k1: term frequency with half of the maximum impact
	serverSaturation = 2
	idfPower         = 1.3 // above 1, rare terms count more than in standard BM25
)

func (b *builder) ranking(docs []Doc) ranking {
	r := ranking{server: make([]int32, len(docs)), features: make([]docFeatures, len(docs))}
	var beside sync.WaitGroup
	beside.Go(func() { r.docs = b.docPostings() })
	ids := map[string]int32{}
	for i, d := range docs {
		id, ok := ids[d.Server]
		if !ok {
			id = int32(len(ids))
			ids[d.Server] = id
		}
		r.server[i] = id
	}
	r.serverCount = len(ids)
	r.servers = b.serverPostings(r.server, len(ids))
	beside.Wait()
	for i := range docs {
		r.features[i] = b.docFeatures(b.short[i], r.docs.idf)
	}
	return r
}

func (b *builder) docPostings() postings {
	p := b.newPostings()
	for i, bag := range b.bags {
		for _, c := range bag {
			w := 0.0
			for f, n := range c.in {
				if n > 0 {
					w += b.weights[f] * float64(n) / (1 - fieldNorm[f] + fieldNorm[f]*b.length[i][f]/b.mean[f])
				}
			}
			p.add(c.term, int32(i), w/(saturation+w))
		}
	}
	p.setIDF(len(b.bags), idfPower)
	return p
}

func (b *builder) newPostings() postings {
	n := len(b.dict.stems)
	p := postings{of: make([][]posting, n), idf: make([]float32, n)}
	sizes := make([]int, n)
	for _, bag := range b.bags {
		for _, c := range bag {
			sizes[c.term]++
		}
	}
	for t, n := range sizes {
		p.of[t] = make([]posting, 0, n)
	}
	return p
}

func (p *postings) add(term, id int32, impact float64) {
	p.of[term] = append(p.of[term], posting{id, float32(impact)})
}

// setIDF computes the inverse document frequency of each term among all docs.
func (p *postings) setIDF(all int, power float64) {
	for t := range p.of {
		p.idf[t] = float32(idf(all, len(p.of[t]), power))
	}
}

// idf returns the inverse document frequency of a term that n of all docs have.
func idf(all, n int, power float64) float64 {
	return math.Pow(math.Log(1+(float64(all-n)+.5)/(float64(n)+.5)), power)
}

// serverPostings combines the words of all tools of a server. The server's own texts,
// which each of its tools contains, count once.
func (b *builder) serverPostings(server []int32, servers int) postings {
	tools, docs := make([]float64, servers), make([][]int, servers)
	for i, s := range server {
		tools[s]++
		docs[s] = append(docs[s], i)
	}
	bags, lengths, mean := make([]bag, servers), make([]float64, servers), 0.0
	for s := range bags {
		bags[s], lengths[s] = b.serverBag(docs[s], tools[s])
		mean += lengths[s] / float64(servers)
	}
	p := postings{of: make([][]posting, len(b.dict.stems)), idf: make([]float32, len(b.dict.stems))}
	for s, bag := range bags {
		for _, c := range bag {
			w := float64(c.in[0]) * mean / lengths[s]
			p.add(c.term, int32(s), w/(serverSaturation+w))
		}
	}
	p.setIDF(servers, 1)
	return p
}

// serverBag returns the weights of the terms in the first field.
func (b *builder) serverBag(docs []int, tools float64) (_ bag, length float64) {
	for _, d := range docs {
		for _, c := range b.bags[d] {
			w := (1.5*float64(c.in[serverField])+float64(c.in[aboutField]))/tools +
				1.5*float64(c.in[nameField]) + float64(c.in[firstField]) + .5*float64(c.in[restField])
			if w == 0 {
				continue
			}
			b.putTerm(c.term, 0, float32(w))
			length += w
		}
	}
	return b.closed(), length
}

// maxOpening is the maximum number of terms in docFeatures.opening.
const maxOpening = 60

func (b *builder) docFeatures(short shortTexts, idf []float32) (c docFeatures) {
	for w := range leafWords(short.name) {
		t := w.known.term
		c.action |= w.known.action
		if !w.known.generic && !slices.Contains(c.name, t) {
			c.name = append(c.name, t)
			c.weight += idf[t]
		}
	}
	for _, ws := range [...][]word{short.name, short.first} {
		for _, w := range ws {
			if c.action == 0 {
				c.action = w.known.action
			}
			if !w.known.stop && len(c.opening) < maxOpening {
				c.opening = append(c.opening, w.known.term)
			}
		}
	}
	return c
}
