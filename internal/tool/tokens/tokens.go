// Package tokens counts the tokens of a text in the o200k encoding. Other encodings
// differ a little, so the figure is for comparison, not for billing.
//
// A text is split into pieces; a piece that is not in the vocabulary is split further
// by byte-pair encoding. The vocabulary is read where it is in the program file, so
// that counting leaves nothing on the heap. Count is safe for concurrent use. The
// package neither truncates texts nor enforces limits.
package tokens

import "unicode/utf8"

// Count returns the number of tokens of text. It counts each byte of invalid UTF-8 as
// U+FFFD, as which a model gets it.
func Count(text string) int {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	count := 0
	for text != "" {
		n := firstPiece(text)
		count += countPiece(text[:n])
		text = text[n:]
	}
	return count
}

// countPiece returns the number of tokens of one piece. In time O(n log n), it merges the
// adjacent tokens with the lowest rank, the leftmost of equal ones, until no two
// adjacent tokens form a token.
func countPiece(piece string) int {
	if rank(piece) != noRank {
		return 1
	}
	var smallTokens [32]token
	var smallQueue [64]candidate
	tokens, queue := smallTokens[:0], candidates(smallQueue[:0])
	end := int32(len(piece))
	for i := range end {
		tokens = append(tokens, token{before: i - 1, next: i + 1, merged: noRank})
	}
	// rate determines the rank of the token at i and the next one together.
	rate := func(i int32) {
		t := &tokens[i]
		t.merged = noRank
		if t.next == end {
			return
		}
		if t.merged = rank(piece[i:tokens[t.next].next]); t.merged != noRank {
			queue.push(candidate(t.merged)<<32 | candidate(i))
		}
	}
	for i := range end {
		rate(i)
	}
	count := len(tokens)
	for len(queue) > 0 {
		best := queue.pop()
		i := int32(best & 0xffffffff)
		if tokens[i].merged != uint32(best>>32) {
			continue // it was merged with another one since
		}
		gone := tokens[i].next
		tokens[gone].merged = noRank
		tokens[i].next = tokens[gone].next
		if tokens[i].next != end {
			tokens[tokens[i].next].before = i
		}
		count--
		rate(i)
		if tokens[i].before >= 0 {
			rate(tokens[i].before)
		}
	}
	return count
}

// token starts at its index in the piece and ends where the next one starts.
type token struct {
	before, next int32
	merged       uint32 // rank of this token and the next one together, or noRank
}

// candidate is the rank of two tokens together, and the index of the first.
type candidate uint64

// candidates is a binary heap with the smallest first. container/heap would allocate
// for each candidate.
type candidates []candidate

func (q *candidates) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2] > c {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i], *q = c, h
}

func (q *candidates) pop() candidate {
	h := *q
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if child >= len(h) || h[child] >= last {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	*q = h
	return first
}
