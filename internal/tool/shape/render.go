package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// preview returns f in detail d; with the zero detail only type and count.
func (f *facts) preview(d detail) Preview {
	p := Preview{Type: f.kind.String()}
	switch f.kind {
	case object:
		p.Count = &f.count
		f.showKeys(&p, d)
	case array:
		p.Count = &f.count
		f.showItems(&p, d)
	case text:
		n := chars(f.span)
		p.Chars = &n
		p.Value = d.scalar(f.span)
	default:
		p.Value = d.scalar(f.span)
	}
	return p
}

func (f *facts) showKeys(p *Preview, d detail) {
	if f.keys == nil {
		return
	}
	shown := f.keys[:min(d.columns, len(f.keys))]
	for _, m := range shown {
		inner := d
		inner.rows = min(d.rows, 2) // the value of a key gets less space than the root
		if d.depth == 0 {
			inner.columns, inner.rows = 0, 0
		}
		v := m.value.preview(inner)
		if len(m.value.span) > d.text {
			v.Bytes = len(m.value.span)
		}
		p.Keys = append(p.Keys, Key{Name: d.name(m.name), Preview: v})
	}
	p.MoreKeys = f.count - len(shown)
}

func (f *facts) showItems(p *Preview, d detail) {
	if f.items == nil || d.columns == 0 || f.count == 0 {
		return
	}
	items := f.items.stats(d)
	p.Items = &items
	shown := f.columns[:min(d.columns, len(f.columns))]
	for i := range shown {
		c := &shown[i]
		s := c.stats(d)
		s.Missing = max(f.items.types[object]-c.seen(), 0)
		p.Columns = append(p.Columns, Column{Name: d.name(c.name), Stats: s})
	}
	p.MoreColumns = len(f.columns) - len(shown) + len(f.others.seen)
	for _, r := range f.rows[:min(d.rows, len(f.rows))] {
		p.First = append(p.First, d.abridge(nil, r, d.depth))
	}
}

// stats returns the statistics of t.
func (t *tally) stats(d detail) Stats {
	s := Stats{Type: t.kinds()}
	if n := t.types[null]; t.seen() > n {
		s.Nulls = n
	}
	if t.n > 0 {
		mean := round(t.mean)
		s.Min, s.Max, s.Mean = &t.min, &t.max, &mean
	}
	if t.strings.full {
		s.Over = len(t.strings.seen)
		return s
	}
	s.Distinct = len(t.strings.seen)
	if d.values && s.Distinct <= maxValues {
		s.Values = shortTexts(t.samples)
	}
	return s
}

// round keeps six significant digits, which is enough for a mean.
func round(x float64) float64 {
	if x == math.Trunc(x) {
		return x
	}
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// shortTexts returns the texts of samples, or nil if one is long.
func shortTexts(samples [][]byte) []string {
	var list []string
	for _, v := range samples {
		s, more := head(v, 24)
		if more {
			return nil
		}
		list = append(list, s)
	}
	return list
}

// extraChars is the number of characters after the limit that detail.cut receives.
const extraChars = 200

// head returns the first n characters of a JSON string, or fewer if it may not be
// cut there, and whether there are more.
func (d detail) head(v []byte, n int) (text string, more bool) {
	text, more = head(v, n)
	if more && d.cut != nil {
		longer, _ := head(v, n+extraChars)
		text = d.cut(longer, len(text))
	}
	return text, more
}

// name returns a key, truncated.
func (d detail) name(key []byte) string {
	s, more := d.head(key, min(d.text, 60))
	if more {
		return s + "…"
	}
	return s
}

// scalar returns a scalar value, abridged.
func (d detail) scalar(v []byte) json.RawMessage {
	if d.text == 0 {
		return nil
	}
	return d.abridge(nil, v, 0)
}

// abridge appends v to dst with long texts, lists and objects truncated, and marks
// each omission in place.
func (d detail) abridge(dst, v []byte, depth int) []byte {
	switch v[0] {
	case '"':
		s, more := d.head(v, d.text)
		if more {
			s = fmt.Sprintf("%s… (%d characters)", s, chars(v))
		}
		return quote(dst, s)
	case '[':
		return d.abridgeArray(dst, v, depth)
	case '{':
		return d.abridgeObject(dst, v, depth)
	}
	if len(v) > maxDigits || !json.Valid(v) {
		return quote(dst, fmt.Sprintf("%.24s… (%d digits)", bytes.ToValidUTF8(v, []byte("?")), len(v)))
	}
	return append(dst, v...)
}

func (d detail) abridgeArray(dst, v []byte, depth int) []byte {
	n := 0
	start := len(dst)
	dst = append(dst, '[')
	_ = rawjson.EachItem(v, func(v []byte) bool {
		if n++; depth > 0 && n <= d.items {
			dst = d.abridge(comma(dst, n), v, depth-1)
		}
		return true
	})
	if depth == 0 && n > 0 {
		return quote(dst[:start], fmt.Sprintf("[… %d items]", n))
	}
	if n > d.items {
		dst = quote(append(dst, ','), fmt.Sprintf("… %d more", n-d.items))
	}
	return append(dst, ']')
}

func (d detail) abridgeObject(dst, v []byte, depth int) []byte {
	n := 0
	start := len(dst)
	dst = append(dst, '{')
	_ = rawjson.EachMember(v, func(key, v []byte) bool {
		if n++; depth > 0 && n <= d.items {
			dst = append(quote(comma(dst, n), d.name(key)), ':')
			dst = d.abridge(dst, v, depth-1)
		}
		return true
	})
	if depth == 0 && n > 0 {
		return quote(dst[:start], fmt.Sprintf("{… %d keys}", n))
	}
	if n > d.items {
		dst = quote(append(dst, `,"…":`...), fmt.Sprintf("%d more keys", n-d.items))
	}
	return append(dst, '}')
}

// comma appends a comma before all but the first element.
func comma(dst []byte, n int) []byte {
	if n > 1 {
		return append(dst, ',')
	}
	return dst
}

// quote appends s as a JSON string.
func quote(dst []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // encoding a string never fails
	return append(dst, bytes.TrimRight(b.Bytes(), "\n")...)
}
