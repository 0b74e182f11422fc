package search

import (
	"math"
	"slices"
)

// ranking is what scores are made of.
type ranking struct {
	docs    postings
	servers postings // each server as one doc of all that its tools say
	server  []int32  // by doc
	cards   []card   // by doc

	serverCount int
}

// card is what the second look at a doc needs.
type card struct {
	name    []int32 // terms that tell the name from others
	weight  float32 // of them together
	opening []int32 // terms of the name and first sentence, in order
	does    action
}

// postings lists, for each term, who has it.
type postings struct {
	of    [][]posting // by term
	worth []float32   // by term: the rarer, the more
}

type posting struct {
	who    int32   // a doc or a server
	impact float32 // how much it speaks of the term, from 0 to 1
}

// saturation is where more of the same word no longer adds much.
const (
	saturation       = .35
	serverSaturation = 2
	worthPower       = 1.3 // above 1, rare words count more than BM25 has it
)

func (b *builder) ranking(docs []Doc) ranking {
	r := ranking{docs: b.docPostings(), server: make([]int32, len(docs)), cards: make([]card, len(docs))}
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
	for i, d := range docs {
		r.cards[i] = b.card(d, r.docs.worth)
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
					w += fieldWeight[f] * float64(n) / (1 - fieldNorm[f] + fieldNorm[f]*b.length[i][f]/b.mean[f])
				}
			}
			p.add(c.term, int32(i), w/(saturation+w))
		}
	}
	p.weigh(len(b.bags), worthPower)
	return p
}

func (b *builder) newPostings() postings {
	n := len(b.dict.stems)
	p := postings{of: make([][]posting, n), worth: make([]float32, n)}
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

func (p *postings) add(term, who int32, impact float64) {
	p.of[term] = append(p.of[term], posting{who, float32(impact)})
}

// weigh sets the worth of each term among all.
func (p *postings) weigh(all int, power float64) {
	for t := range p.of {
		n := float64(len(p.of[t]))
		p.worth[t] = float32(math.Pow(math.Log(1+(float64(all)-n+.5)/(n+.5)), power))
	}
}

// serverPostings counts the words of all tools of a server together; what is
// said of the server itself stands in each of them, and counts once.
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
	p := postings{of: make([][]posting, len(b.dict.stems)), worth: make([]float32, len(b.dict.stems))}
	for s, bag := range bags {
		for _, c := range bag {
			w := float64(c.in[0]) * mean / lengths[s]
			p.add(c.term, int32(s), w/(serverSaturation+w))
		}
	}
	p.weigh(servers, 1)
	return p
}

// serverBag has its weights in the first field.
func (b *builder) serverBag(docs []int, tools float64) (total bag, length float64) {
	clear(b.at)
	for _, d := range docs {
		for _, c := range b.bags[d] {
			w := (1.5*float64(c.in[serverField])+float64(c.in[aboutField]))/tools +
				1.5*float64(c.in[nameField]) + float64(c.in[firstField]) + .5*float64(c.in[restField])
			if w == 0 {
				continue
			}
			i, ok := b.at[c.term]
			if !ok {
				i = len(total)
				b.at[c.term] = i
				total = append(total, count{term: c.term})
			}
			total[i].in[0] += float32(w)
			length += w
		}
	}
	return total, length
}

// longestOpening is how many terms of it are kept.
const longestOpening = 60

func (b *builder) card(d Doc, worth []float32) (c card) {
	name := cut(d.Name, longestField)
	for _, w := range simple(words(name)) {
		t := b.dict.word[w]
		c.does |= b.known.actions[b.dict.stems[t]]
		if !b.known.generic[w] && !slices.Contains(c.name, t) {
			c.name = append(c.name, t)
			c.weight += worth[t]
		}
	}
	first, _ := firstSentence(d.Description)
	for _, text := range [...]string{name, cut(first, longestField)} {
		for _, w := range words(text) {
			t := b.dict.word[w.text]
			if a := b.known.actions[b.dict.stems[t]]; c.does == 0 && a != 0 {
				c.does = a
			}
			if !b.known.stop[w.text] && len(c.opening) < longestOpening {
				c.opening = append(c.opening, t)
			}
		}
	}
	return c
}
