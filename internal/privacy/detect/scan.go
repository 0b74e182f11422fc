package detect

import (
	"runtime"
	"sync"
)

const (
	share = 4  // the least number of blocks for which another processor is used
	round = 64 // blocks that are scanned at a time: their findings are copied
)

// rules are what is searched for.
type rules struct {
	keys     keyTable
	patterns []pattern
	prose    bool // search names in prose
}

// scan adds the candidates in text, except those before from. All processors scan a large
// text, in consecutive parts: no block depends on another, except for repeated names in prose.
func (r *rules) scan(found []Finding, text string, from int) []Finding {
	blocks := (len(text) + block - 1) / block
	for lo := 0; lo < blocks; lo += round {
		n := min(round, blocks-lo)
		parts := make([][]Finding, max(1, min(n/share, runtime.GOMAXPROCS(0))))
		if r.prose {
			parts = parts[:1]
		}
		scanPart := func(k int) {
			for i := n * k / len(parts); i < n*(k+1)/len(parts); i++ {
				parts[k] = r.scanBlock(parts[k], text, (lo+i)*block, from)
			}
		}
		parts[0] = found
		var others sync.WaitGroup
		for k := range parts[1:] {
			others.Go(func() { scanPart(k + 1) })
		}
		scanPart(0)
		others.Wait()
		found = parts[0]
		for _, part := range parts[1:] {
			found = append(found, part...)
		}
	}
	return found
}

// scanBlock adds the candidates at the anchors of text[lo:lo+block], except those before
// from. Its context does not depend on how the text arrived, so that a Stream finds what
// Scan finds.
func (r *rules) scanBlock(found []Finding, text string, lo, from int) []Finding {
	left, right := max(0, lo-behind), min(len(text), lo+block+ahead)
	p := passage{text: text[left:right], base: left, keys: &r.keys, found: found}
	hi := min(len(text), lo+block)
	recognizers().try(&p, max(lo, from)-left, hi-left)
	addPatterns(&p, r.patterns, lo-left, hi-left)
	if r.prose {
		addNames(&p, max(lo, from)-left, hi-left)
	}
	return p.found
}
