package detect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	unmarked = strings.NewReplacer("«", "", "»", "", "¶", "\n")
	lines    = strings.NewReplacer("¶", "\n")
)

// Each recognizer finds in its examples what is marked and nothing else, and some have nothing.
func TestRecognizersFindTheirExamples(t *testing.T) {
	hints := builtin()
	keys := &keyTable{hints, tailsOf(hints)}
	for _, r := range allRecognizers {
		x, some, none := indexOf([]recognizer{r}), false, false
		for _, example := range r.Examples {
			text := unmarked.Replace(example)
			p := passage{text: text, keys: keys}
			x.try(&p, 0, len(text))
			found := finish(p.found, text)
			if d := cmp.Diff(lines.Replace(example), marked(text, found)); d != "" {
				t.Errorf("%s: %s", r.Type, d)
			}
			for _, f := range found {
				if f.Type != r.Type && r.Type != "" {
					t.Errorf("a recognizer of %s found a %s in %q", r.Type, f.Type, example)
				}
			}
			some, none = some || len(found) > 0, none || len(found) == 0
		}
		if !some || !none {
			t.Errorf("%s: %q lack an example of what is found, or of what is not", r.Type, r.Examples)
		}
	}
}

func marked(text string, found []Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		b.WriteString(text[at:f.Start] + "«" + text[f.Start:f.End] + "»")
		at = f.End
	}
	return b.String() + text[at:]
}

// A token that an anchor permits is examined at all (see isAnchor), and a text begins with a trigger.
func TestAnchorsAreExamined(t *testing.T) {
	for _, r := range allRecognizers {
		for _, a := range r.Anchors {
			seen, needsDigit := uint8(tokenClasses&^digit), false
			if a.Text != "" {
				if class[a.Text[0]]&trigger == 0 {
					t.Errorf("%s: %q does not begin with a trigger", r.Type, a.Text)
				}
				continue
			}
			needsDigit = a.Has == digit || a.First != "" && isDigits(a.First)
			if seen &^= a.Lacks; needsDigit {
				seen |= digit
			}
			for _, first := range []byte(orAny(a.First, "x")) {
				for _, behind := range []byte(orAny(a.After, " ")) {
					token := string(first) + strings.Repeat("x", max(a.Least, 1)-1)
					if !isAnchor(token+string(behind), 0, len(token), seen) {
						t.Errorf("%s: a token permitted by %+v is not examined", r.Type, a)
					}
				}
			}
		}
	}
}

func orAny(list, any string) string {
	if list == "" {
		return any
	}
	return list
}
