package redact

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// collector finds the values that a redaction replaces, in the same order. It keeps nothing else of a text, and of its
// literals only those with values: most large answers have few.
type collector struct {
	turn func(ctx context.Context, n int) (done func(), err error) // as that of a redaction
	search
	replacer

	waiting []string // texts to collect, "" for those that need not be collected any more
}

// collectAll adds the values in texts. Many servers send JSON and the same as the text of a string, which is collected
// once.
func (c *collector) collectAll(texts []string) {
	c.waiting = slices.Clone(texts)
	for i := range c.waiting {
		text := c.waiting[i]
		for c.omit(text) {
		}
		c.collect(text)
	}
}

// collect adds the values in a text.
func (c *collector) collect(text string) {
	if text == "" {
		return
	}
	done, err := c.turn(context.Background(), len(text))
	if err != nil {
		return
	}
	defer done()
	if c.index == nil {
		c.index = map[vault.Value]int{}
	}
	c.scan("", text, 0, false)
}

// scan adds the values in a text and in the strings of JSON in it. nested means that it is such a string.
func (c *collector) scan(key, text string, depth int, nested bool) {
	s := &textView{doc: &document{src: text}, tokens: vault.FindTokens(text), nestedDoc: nested}
	if depth > maxDepth || !isJSON(text) {
		for _, f := range c.find(key, s.visible()) {
			c.number(vault.Value{Type: f.Type, Text: text[f.Start:f.End]})
		}
		return
	}
	if mayNeedDecoding(text) {
		c.scanStrings(s, depth)
	}
	all := c.find("", s.visible())
	s.literals = literalsWith(s, all)
	values := make([]found, 0, len(all))
	for _, f := range all {
		if parts := s.clip(span{f.Start, f.End}); len(parts) > 0 {
			values = append(values, found{f.Type, parts})
		}
	}
	for _, f := range mergeOverlaps(values) {
		c.number(c.value(f))
	}
}

// mayNeedDecoding reports whether a string of JSON may have to be decoded.
func mayNeedDecoding(src string) bool {
	return strings.IndexByte(src, '\\') >= 0 || strings.Contains(src, `"{`) || strings.Contains(src, `"[`)
}

// scanStrings adds the values in the strings of JSON that have to be decoded.
func (c *collector) scanStrings(s *textView, depth int) {
	src := s.doc.src
	literals(src, func(l literal) {
		if l.number || !needsDecoding(src[l.start:l.end]) {
			return
		}
		s.nested = append(s.nested, l.place())
		key := l.key
		if c.adjustKey != nil && key != "" {
			key = c.adjustKey(key, src, l.start+1, l.end-1)
		}
		text, depth := unquote(src[l.start:l.end]), depth+1
		if slices.Contains(c.waiting, text) && isJSON(text) && c.omit(text) { // of other text the key counts, too
			depth = 0
		}
		c.scan(key, text, depth, true)
	})
}

// omit omits a text that is waiting, and reports whether it was.
func (c *collector) omit(text string) bool {
	i := slices.Index(c.waiting, text)
	if i < 0 || text == "" {
		return false
	}
	c.waiting[i] = ""
	return true
}

// literalsWith returns the literals of JSON that are not decoded and overlap findings, which are in order.
func literalsWith(s *textView, all []detect.Finding) (lits []place) {
	src, nested := s.doc.src, s.nested
	var results []span
	for i := 0; i < len(src) && len(all) > 0; {
		at := place{start: int32(i)}
		switch c := src[i]; {
		case c == '"':
			if len(nested) > 0 && int(nested[0].start) == i {
				i, nested = int(nested[0].end), nested[1:]
				continue
			}
			i += strings.IndexByte(src[i+1:], '"') + 2 // it has no escapes
		case c == '-' || c-'0' <= 9:
			for i++; i < len(src) && isNumberByte(src[i]); i++ {
			}
			at.number = true
		default:
			i++
			continue
		}
		for len(all) > 0 && all[0].End <= int(at.start) {
			all = all[1:]
		}
		if at.end = int32(i); len(all) > 0 && all[0].Start < i {
			if at.isKey = !at.number && isKeyEnd(src, i); at.isKey && !s.nestedDoc {
				if results == nil {
					results = append(resultSpans(src), span{len(src), len(src)})
				}
				for results[0].end < i {
					results = results[1:]
				}
				at.inResult = results[0].start < i
			}
			lits = append(lits, at)
		}
	}
	return lits
}

func isNumberByte(c byte) bool { return c-'0' <= 9 || strings.IndexByte("+-.eE", c) >= 0 }

// isKeyEnd reports whether the string of JSON that ends at i is a key.
func isKeyEnd(src string, i int) bool {
	for i < len(src) && strings.IndexByte(" \t\r\n", src[i]) >= 0 {
		i++
	}
	return i < len(src) && src[i] == ':'
}

// resultSpans returns where the literals are that are in a member "result" of the outermost object.
func resultSpans(src string) (all []span) {
	before := false
	literals(src, func(l literal) {
		if l.arg == "result" && before {
			all[len(all)-1].end = l.end
		} else if l.arg == "result" {
			all = append(all, span{l.start, l.end})
		}
		before = l.arg == "result"
	})
	return all
}
