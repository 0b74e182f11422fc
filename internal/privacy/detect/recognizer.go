package detect

import (
	"math/bits"
	"strings"
)

// recognizer finds the values of one type.
type recognizer struct {
	Type     Type     // of what Find adds; "" if a key decides
	Anchors  []anchor // where Find is tried: at each place that one of them describes
	Find     func(p *passage, start, end int)
	Examples []string // texts with what is found alone between « and »; ¶ is a line break. Some have nothing.
}

// anchor describes a place: a text, or a token with all the other properties. Their zero
// values permit any token. A token is a run of letters, digits, '-' and '_'.
type anchor struct {
	Text string // begins with a byte of class trigger

	Has, Lacks  uint8  // classes of which the token has a byte, and none
	Letter      bool   // it has a letter in addition to Has
	First       string // its first byte is one of these
	Least, Most int    // number of its bytes
	After       string // the byte behind it is one of these
}

const (
	decimals = "0123456789"
	letters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Sizes of the tokens without a digit that are examined.
const (
	longToken         = 16 // a shorter token needs a digit or a mark behind it
	longestSalutation = 4  // longest word in front of a name
	armour            = 10 // size of "-----BEGIN"
)

// isAnchor reports whether a token can be an anchor: it has a digit, is long, is followed by a byte
// of class next, or begins like a salutation or a key in armour. Most words are not.
func isAnchor(text string, start, end int, seen uint8) bool {
	size := end - start
	return seen&digit != 0 || size >= longToken || end < len(text) && class[text[end]]&next != 0 ||
		size <= longestSalutation && (text[start] == 'D' || text[start] == 'M' || text[start] == 'P') ||
		size == armour && text[start] == '-'
}

const (
	maxTrials    = 64
	maxSize      = 127 // of anchors; a longer token is like one of this size
	tokenClasses = upper | lower | digit | joint | nonHex
)

// trial is one anchor of a recognizer.
type trial struct {
	find func(p *passage, start, end int)
	typ  Type
	text string
	all  trials // of the recognizer
}

// trials is a set of the trials of an index: bit k is number k.
type trials uint64

// index has the trials that are possible by what is known about a place. All that a place permits are
// in each of the sets for its properties.
type index struct {
	list    [maxTrials]trial
	texts   trials                   // at texts instead of tokens
	classes [tokenClasses + 1]trials // by the classes of the bytes of a token
	sizes   [maxSize + 1]trials      // by the size of a token
	first   [256]trials              // by the first byte
	second  [256]trials              // by the byte behind a token, or the second byte of a text
}

// indexOf returns the index of recognizers.
func indexOf(all []recognizer) *index {
	x, n := &index{}, 0
	for _, r := range all {
		own := (trials(1)<<len(r.Anchors) - 1) << n
		for _, a := range r.Anchors {
			x.list[n] = trial{find: r.Find, typ: r.Type, text: a.Text, all: own}
			x.permit(a, 1<<n)
			n++
		}
	}
	return x
}

// permit adds a trial to the sets of the places that its anchor describes.
func (x *index) permit(a anchor, t trials) {
	first, second := a.First, a.After
	if a.Text != "" {
		x.texts |= t
		first, second = a.Text[:1], a.Text[1:min(len(a.Text), 2)]
	}
	for b := range 256 {
		if first == "" || strings.IndexByte(first, byte(b)) >= 0 {
			x.first[b] |= t
		}
		if second == "" || strings.IndexByte(second, byte(b)) >= 0 {
			x.second[b] |= t
		}
	}
	for seen := range x.classes {
		if a.Text == "" && a.permits(uint8(seen)) {
			x.classes[seen] |= t
		}
	}
	for size := range x.sizes {
		if size >= a.Least && (a.Most == 0 || size <= a.Most) {
			x.sizes[size] |= t
		}
	}
}

// permits reports whether a token with bytes of the classes seen can be the anchor.
func (a anchor) permits(seen uint8) bool {
	return (a.Has == 0 || seen&a.Has != 0) && seen&a.Lacks == 0 && (!a.Letter || seen&letter != 0)
}

// tryText tries the recognizers for the text at i.
func (x *index) tryText(p *passage, i int) {
	for left := x.texts & x.first[p.text[i]] & x.second[p.at(i+1)]; left != 0; {
		t := &x.list[bits.TrailingZeros64(uint64(left))]
		left &^= t.all
		if len(t.text) <= 2 || strings.HasPrefix(p.text[i:], t.text) {
			p.typ = t.typ
			t.find(p, i, i+len(t.text))
		}
	}
}

// tryToken tries the recognizers for a token with bytes of the classes seen.
func (x *index) tryToken(p *passage, start, end int, seen uint8) {
	left := x.classes[seen&tokenClasses] & x.sizes[min(end-start, maxSize)] & x.first[p.text[start]] & x.second[p.at(end)]
	for left != 0 {
		t := &x.list[bits.TrailingZeros64(uint64(left))]
		left &^= t.all
		p.typ = t.typ
		t.find(p, start, end)
	}
}

// tokenSize returns the size of the token at the beginning of a text.
func tokenSize(text string) int {
	for i := range len(text) {
		if class[text[i]]&tokens == 0 {
			return i
		}
	}
	return len(text)
}

// try tries the recognizers at the anchors of text[lo:hi]. Most bytes are handled by the first and
// the last loop only; each recognizer reads a bounded number of bytes.
func (x *index) try(p *passage, lo, hi int) {
	t := p.text
	i := lo
	if i > 0 && i < hi && class[t[i-1]]&tokens != 0 { // the token began in the previous block
		i += tokenSize(t[i:hi])
	}
	for i < hi {
		c := class[t[i]]
		if c&(tokens|trigger) == 0 {
			i++
			continue
		}
		if c&trigger != 0 {
			x.tryText(p, i)
			i++
			continue
		}
		start, seen := i, uint8(0)
		for i < len(t) && class[t[i]]&tokens != 0 {
			seen |= class[t[i]]
			i++
		}
		if isAnchor(t, start, i, seen) {
			if start = p.unescape(start); start < i {
				x.tryToken(p, start, i, seen)
			}
		}
	}
}
