package guardrail

import (
	"cmp"
	"slices"
	"strings"
)

// Injection is text that reads like instructions to a model or is hidden from people:
// text[Start:End], in bytes.
type Injection struct {
	Kind       string // one of the constants below
	Start, End int
}

// Kinds of injection.
const (
	InjectionOverride = "override" // ignore all previous instructions
	InjectionAddress  = "address"  // if you are an AI; the assistant must send
	InjectionSecrecy  = "secrecy"  // do not tell the user
	InjectionReveal   = "reveal"   // print your system prompt
	InjectionRole     = "role"     // delimiters of roles in prompts
	InjectionComment  = "comment"  // an HTML comment that instructs a model
	InjectionHidden   = "hidden"   // invisible characters
	InjectionDecode   = "decode"   // encoded text that is to be decoded and obeyed
)

// maxInjections limits the injections reported for one text.
const maxInjections = 50

// FindInjections returns the injections in a text, in order. The text may be JSON,
// whose escapes separate words. It runs in linear time.
//
// It matches a list of phrases in English, and some in German, French and Spanish. Text written with
// knowledge of the list can avoid it.
func FindInjections(text string) []Injection {
	s := scanner{text: text, comment: -1, blobStart: -1, decode: -far, act: -far}
	s.run()
	return s.found
}

// InjectionKinds returns the kinds of injections in texts of a server, without
// duplicates.
func (g *Guard) InjectionKinds(texts ...string) (kinds []string) {
	if g == nil || g.cfg.SkipOutput {
		return nil
	}
	for _, t := range texts {
		for _, m := range FindInjections(t) {
			if !slices.Contains(kinds, m.Kind) {
				kinds = append(kinds, m.Kind)
			}
		}
	}
	return kinds
}

// scanner is the state of one scan of a text.
type scanner struct {
	text  string
	found []Injection

	word  [longest]byte // the current word in lower case
	n     int           // its length in bytes, which may exceed longest
	begun int

	recent [window]classified // ring of the classified words of this sentence
	last   int                // number of classified words
	words  int                // number of words in this sentence

	comment        int       // start of the current HTML comment; -1: none
	inComment      wordClass // classes of the words in it
	blobStart      int
	blobEnd        int
	decode, act    int // last position of a word of the class
	hiddenFrom     int
	hidden, joined int
}

const (
	longest = 24 // bytes of the longest word in the vocabulary
	window  = 8  // maximum length of a phrase in words
	far     = 1 << 30
	near    = 300 // bytes between encoded text and the words that refer to it
)

// classified is a word that has a class.
type classified struct {
	class wordClass
	at    int // index in the sentence
	start int
}

// Kinds of bytes.
const (
	plainByte = iota
	wordByte
	endByte // ends a sentence
	tagByte
	escapeByte
	wideByte // may begin an invisible character
)

var kindOf = func() (k [256]uint8) {
	for c := range 256 {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '\'', c >= 0x80:
			k[c] = wordByte
		}
	}
	for _, c := range ".!?" {
		k[c] = endByte
	}
	k['<'], k['['], k['-'], k['\\'] = tagByte, tagByte, tagByte, escapeByte
	k[0xc2], k[0xe2], k[0xef], k[0xf3] = wideByte, wideByte, wideByte, wideByte
	return k
}()

func (s *scanner) run() {
	for i := 0; i < len(s.text); i++ {
		switch kindOf[s.text[i]] {
		case wordByte:
			if end := s.wholeWord(i); end > i {
				s.begun = i
				s.endWholeWord(end)
				i = end - 1
				continue
			}
			s.addLetter(i, s.text[i])
		case plainByte:
			if s.n >= longest/2 && isEncoding(s.text[i]) {
				s.n++
				continue
			}
			s.endWord(i)
			if strings.HasPrefix(s.text[i:], "\n\n") {
				s.last, s.words = 0, 0
			}
		case endByte:
			s.endWord(i)
			s.endSentence(i)
		case tagByte:
			s.endWord(i)
			s.checkTag(i)
		case escapeByte:
			s.endWord(i)
			for i+1 < len(s.text) && s.text[i+1] == '\\' {
				i++
			}
			i++ // the n of \n is not a letter
		case wideByte:
			i += s.checkWide(i)
		}
	}
	s.endWord(len(s.text))
	s.endHidden()
}

func (s *scanner) add(kind string, start, end int) {
	if len(s.found) < maxInjections {
		s.found = append(s.found, Injection{kind, start, end})
	}
}

// wholeWord returns the end of the word that begins at i, or i if invisible characters or the other
// characters of encoded text may continue it.
func (s *scanner) wholeWord(i int) int {
	if s.n > 0 {
		return i
	}
	end := i + 1
	for end < len(s.text) && kindOf[s.text[end]] == wordByte {
		end++
	}
	if end < len(s.text) && (kindOf[s.text[end]] == wideByte || end-i >= longest/2 && isEncoding(s.text[end])) {
		return i
	}
	return end
}

// isEncoding reports whether c occurs in base64, besides letters and digits.
func isEncoding(c byte) bool { return c == '+' || c == '/' || c == '=' }

// endWholeWord is endWord for the text from s.begun.
func (s *scanner) endWholeWord(end int) {
	n := end - s.begun
	if n <= longest && wordLengths[lower(s.text[s.begun])]>>n&1 != 0 {
		for i := range n {
			s.word[i] = lower(s.text[s.begun+i])
		}
	} else if n <= longest {
		s.words++
		return
	}
	s.n = n
	s.endWord(end)
}

func lower(c byte) byte {
	if c-'A' < 26 {
		c |= 0x20
	}
	return c
}

func (s *scanner) addLetter(i int, c byte) {
	if s.n == 0 {
		s.begun = i
	}
	if s.n < longest {
		s.word[s.n] = lower(c)
	}
	s.n++
}

// endSentence begins a new sentence, unless the point belongs to a number or a name.
func (s *scanner) endSentence(i int) {
	if i+1 == len(s.text) || strings.IndexByte(" \n\\\"", s.text[i+1]) >= 0 {
		s.last, s.words = 0, 0
	}
}

// endWord classifies the word that ends at i.
func (s *scanner) endWord(i int) {
	n := s.n
	s.n = 0
	if n == 0 {
		return
	}
	s.words++
	if n > longest {
		s.noteBlob(n, i)
		return
	}
	if wordLengths[s.word[0]]>>n&1 == 0 {
		return
	}
	c := vocabulary[string(s.word[:n])]
	if c == 0 {
		return
	}
	s.recent[s.last%window] = classified{c, s.words, s.begun}
	s.last++
	s.inComment |= c
	s.matchPhrases(c, i)
	s.noteDecode(c, i)
}

// matchPhrases looks for phrases that end with a word of class c at i.
func (s *scanner) matchPhrases(c wordClass, i int) {
	for _, p := range phrases {
		if c&p.ends == 0 {
			continue
		}
		if start := s.phraseStart(p, c); start >= 0 {
			s.add(p.kind, start, i)
			s.last = 0
			return
		}
	}
}

// phraseStart returns the start of a phrase whose last word is of class c, or -1.
func (s *scanner) phraseStart(p phrase, c wordClass) int {
	have := c
	for k := s.last - 1; k >= max(0, s.last-window); k-- {
		w := s.recent[k%window]
		if s.words-w.at > cmp.Or(p.most, window) {
			break
		}
		have |= w.class
		if w.class&p.begins == 0 || k == s.last-1 || p.next && s.recent[(k+1)%window].at > w.at+1 {
			continue
		}
		for _, need := range p.needs {
			if have&need == need {
				return w.start
			}
		}
	}
	return -1
}

// checkTag looks for role tags and comments at '<', '[' or '-'.
func (s *scanner) checkTag(i int) {
	rest := s.text[i:min(len(s.text), i+longestTag)]
	if rest[0] == '-' {
		if strings.HasPrefix(rest, "-->") && s.comment >= 0 {
			if s.inComment&does != 0 && (s.inComment&model != 0 || s.inComment&agent != 0 && s.inComment&(you|must) != 0) {
				s.add(InjectionComment, s.comment, i+3)
			}
			s.comment = -1
		}
		return
	}
	if strings.HasPrefix(rest, "<!--") && s.comment < 0 {
		s.comment, s.inComment = i, 0
		return
	}
	if len(rest) < 4 || rest[0] == '<' && strings.IndexByte("|/<satfSATF", rest[1]) < 0 ||
		rest[0] == '[' && rest[1]|0x20 != 'i' && rest[1] != '/' {
		return
	}
	for _, t := range roleTags {
		if len(rest) >= len(t) && strings.EqualFold(rest[:len(t)], t) && (t[0] != '[' || strings.Contains(rest[:len(t)], "INST")) {
			s.add(InjectionRole, i, i+len(t))
			return
		}
	}
}

// noteBlob records a word that is long enough to be encoded text.
func (s *scanner) noteBlob(n, end int) {
	text := s.text[s.begun:end]
	if n >= 40 && strings.ContainsAny(text, "0123456789") && strings.ToLower(text) != text {
		s.blobStart, s.blobEnd = s.begun, end
		s.checkDecode()
	}
}

// noteDecode records words that demand decoding or execution.
func (s *scanner) noteDecode(c wordClass, i int) {
	if c&decodes != 0 {
		s.decode = i
	}
	if c&obeys != 0 {
		s.act = i
	}
	if c&(decodes|obeys) != 0 {
		s.checkDecode()
	}
}

// checkDecode adds an injection if words near the encoded text demand to decode and
// obey it.
func (s *scanner) checkDecode() {
	at := func(place int) bool { return place >= s.blobStart-near && place <= s.blobEnd+near }
	if s.blobStart >= 0 && at(s.decode) && at(s.act) {
		s.add(InjectionDecode, s.blobStart, s.blobEnd)
		s.blobStart = -1
	}
}
