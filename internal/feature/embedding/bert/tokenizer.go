package bert

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// tokenizer splits text into the tokens of a vocabulary as BERT's uncased models do. A text
// that contains the name of a special token, such as [SEP], has the parts of the name.
type tokenizer struct {
	ids                 map[string]int32
	begin, end, unknown int32
}

// newTokenizer returns the tokenizer of a vocabulary, by id.
func newTokenizer(tokens []string, size int) (tokenizer, error) {
	t := tokenizer{ids: make(map[string]int32, len(tokens))}
	for id, token := range tokens {
		t.ids[token] = int32(id)
	}
	if len(t.ids) != size {
		return t, wrongKind("its vocabulary has %d different tokens instead of %d", len(t.ids), size)
	}
	for name, to := range map[string]*int32{"[CLS]": &t.begin, "[SEP]": &t.end, "[UNK]": &t.unknown} {
		id, ok := t.ids[name]
		if !ok {
			return t, wrongKind("its vocabulary has no token %s", name)
		}
		*to = id
	}
	return t, nil
}

const (
	continuation = "##" // begins a token that continues a word
	maxWord      = 100  // runes; a longer word is unknown
)

// encode returns the ids of at most limit tokens, including those of begin and end.
func (t tokenizer) encode(text string, limit int) []int32 {
	ids := []int32{t.begin}
	for word := range strings.FieldsSeq(normalise(text)) {
		if ids = t.appendWord(ids, word); len(ids) >= limit {
			ids = ids[:limit-1]
			break
		}
	}
	return append(ids, t.end)
}

// appendWord appends the longest tokens from which a word can be put together.
func (t tokenizer) appendWord(ids []int32, word string) []int32 {
	if len([]rune(word)) > maxWord {
		return append(ids, t.unknown)
	}
	known := len(ids)
	for prefix := ""; word != ""; prefix = continuation {
		n := len(word)
		for ; n > 0; n-- {
			if id, ok := t.ids[prefix+word[:n]]; ok {
				ids = append(ids, id)
				break
			}
		}
		if n == 0 {
			return append(ids[:known], t.unknown)
		}
		word = word[n:]
	}
	return ids
}

// normalise returns a text in lower case without accents and control characters, with spaces
// around punctuation and Chinese characters.
func normalise(text string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(strings.Map(clean, text)) {
		switch {
		case unicode.Is(unicode.Mn, r):
		case isPunctuation(r) || isChinese(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

func clean(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case r == unicode.ReplacementChar || unicode.Is(unicode.C, r):
		return -1
	}
	return r
}

func isPunctuation(r rune) bool {
	return r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)) || unicode.IsPunct(r)
}

// isChinese reports whether a rune is in the blocks that BERT splits into single characters.
func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
