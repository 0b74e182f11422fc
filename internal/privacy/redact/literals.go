package redact

import (
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// literal is a string or number of a JSON text: src[start:end], including quotes.
type literal struct {
	start, end int
	key        string // of the object that contains it, directly or through an array
	arg        string // key of the outermost object that contains it
	list       int    // number of the array that contains it; 0: none
	isKey      bool
	number     bool
}

// literals calls f with each string and number of src, which must be valid JSON, in
// order.
func literals(src string, f func(literal)) {
	var (
		open  []container
		top   = &container{}
		lists int
		arg   string
	)
	for i := 0; i < len(src); i++ {
		switch c := src[i]; c {
		case '{', '[':
			next := container{object: c == '{', wantsKey: c == '{', key: top.key}
			if c == '[' {
				lists++
				next.list = lists
			}
			open = append(open, next)
			top = &open[len(open)-1]
		case '}', ']':
			open = open[:len(open)-1]
			top = &container{}
			if len(open) > 0 {
				top = &open[len(open)-1]
			}
		case ',':
			top.wantsKey = top.object
		case ':':
			top.wantsKey = false
		case '"':
			end := stringEnd(src, i)
			l := literal{start: i, end: end, key: top.key, list: top.list, isKey: top.wantsKey}
			if l.isKey {
				top.key, l.key, l.list = unquote(src[i:end]), "", 0
				if len(open) == 1 {
					arg = top.key
				}
			}
			l.arg = arg
			f(l)
			i = end - 1
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := i + 1
			for end < len(src) && strings.IndexByte("0123456789+-.eE", src[end]) >= 0 {
				end++
			}
			f(literal{
				start:  i,
				end:    end,
				key:    top.key,
				arg:    arg,
				list:   top.list,
				number: true,
			})
			i = end - 1
		}
	}
}

// container is an object or array that is not closed yet.
type container struct {
	object, wantsKey bool
	key              string // the last key of an object; the key of an array
	list             int
}

// stringEnd returns the end of the string that begins at i.
func stringEnd(src string, i int) int {
	for i++; src[i] != '"'; i++ {
		if src[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// needsDecoding reports whether a JSON string must be decoded before it is scanned.
func needsDecoding(lit string) bool {
	if strings.IndexByte(lit, '\\') >= 0 {
		return true
	}
	return (lit[1] == '{' || lit[1] == '[') && isJSON(lit[1:len(lit)-1])
}

// place is a literal without the text of its keys. A large answer has a hundred thousand
// literals: without pointers they cost the garbage collector nothing.
type place struct {
	start, end    int32
	isKey, number bool
	inResult      bool // in the member "result" of the outermost object
}

func (p place) span() span { return span{int(p.start), int(p.end)} }

func (l literal) place() place {
	return place{int32(l.start), int32(l.end), l.isKey, l.number, l.arg == "result"}
}

// literalAt returns the index of the first literal that ends after a position.
func literalAt(lits []place, at int) int {
	return sort.Search(len(lits), func(i int) bool { return int(lits[i].end) > at })
}

// decodeEscapes returns valid JSON with the same values, in which letters outside of ASCII are not
// escaped: rules find "Zoë" and not "Zo\u00eb".
func decodeEscapes(src string) string {
	if !strings.Contains(src, `\u`) {
		return src
	}
	var b strings.Builder
	for i := 0; i < len(src); i++ {
		if src[i] != '\\' {
			b.WriteByte(src[i])
			continue
		}
		r, size := escapedRune(src[i:]), len(`\u0000`)
		if utf16.IsSurrogate(r) {
			r, size = utf16.DecodeRune(r, escapedRune(src[i+size:])), 2*size
		}
		if r < utf8.RuneSelf || r == utf8.RuneError { // it stays escaped, as half of a pair does
			b.WriteString(src[i : i+2])
			i++
			continue
		}
		b.WriteRune(r)
		i += size - 1
	}
	return b.String()
}

// escapedRune returns the code unit of an escape at the beginning of JSON text, -1 if there is none.
func escapedRune(src string) rune {
	digits, ok := strings.CutPrefix(src, `\u`)
	if !ok || len(digits) < 4 {
		return -1
	}
	n, err := strconv.ParseUint(digits[:4], 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}
