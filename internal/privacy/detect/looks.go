package detect

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"
)

// nameLike reports whether v can be the name of a person.
func nameLike(v string) bool {
	if len(v) < 2 || len(v) > 80 || strings.Count(v, " ") > 5 {
		return false
	}
	letters := false
	for i := range len(v) {
		switch {
		case class[v[i]]&(letter|high) != 0:
			letters = true
		case strings.IndexByte(" .'-,", v[i]) < 0:
			return false
		}
	}
	return letters && v != "null" && v != "None" && v != "true" && v != "false"
}

// particles are lower-case words in names.
var particles = map[string]bool{"van": true, "von": true, "der": true, "den": true, "de": true, "del": true, "da": true, "di": true,
	"du": true,
	"la": true, "le": true, "dos": true, "bin": true, "ibn": true, "al": true, "el": true, "y": true, "zu": true, "ter": true}

// titleCase reports whether v is two to four capitalized words. The key "name" has many
// meanings, so its value must look like the name of a person.
func titleCase(v string) bool {
	n := 0
	for w := range strings.FieldsSeq(v) {
		if n > 0 && particles[w] {
			continue
		}
		if class[w[0]]&(upper|high) == 0 || len(w) > 2 && class[w[1]]&upper != 0 && class[w[2]]&upper != 0 {
			return false
		}
		n++
	}
	return n >= 2 && n <= 4 && nameLike(v) && !strings.Contains(v, ",")
}

// listedName reports whether v looks like a name and begins with a given name that is in the
// lists. A customer can be a company, and an owner a team.
func listedName(v string) bool {
	if !titleCase(v) {
		return false
	}
	words := strings.Fields(v)
	end := lexicon.Fold(words[len(words)-1])
	if end == "doe" || end == "mustermann" { // placeholders
		return false
	}
	kinds := lexicon.Load()
	first, last := kinds[lexicon.Fold(words[0])], kinds[end]
	return first&lexicon.Given != 0 && (last == 0 || last&lexicon.Surname != 0) && last&lexicon.Thing == 0
}

// addressLike reports whether v can be a postal address: words, with a number or a
// comma between them.
func addressLike(v string) bool {
	return streetLike(v) && strings.ContainsAny(v, "0123456789,")
}

func streetLike(v string) bool {
	return len(v) >= 5 && strings.Contains(v, " ") && !strings.ContainsAny(v, "@{}<>=[]") && !strings.Contains(v, "://") &&
		strings.ContainsFunc(v, func(r rune) bool { return r >= 'A' })
}

func phoneLike(v string) bool {
	n := 0
	for i := range len(v) {
		switch {
		case class[v[i]]&digit != 0:
			n++
		case strings.IndexByte(" +-./()x", v[i]) < 0:
			return false
		}
	}
	return n >= 6 && n <= 15 && !strings.HasPrefix(v, "19") && !strings.HasPrefix(v, "20") || n >= 9 && n <= 15
}

func nineDigits(v string) bool {
	v = strings.TrimSuffix(v, ".0") // pandas converts integer columns with missing values to floats
	n := 0
	for i := range len(v) {
		if class[v[i]]&digit != 0 {
			n++
		} else if v[i] != '-' && v[i] != ' ' {
			return false
		}
	}
	return n == 9
}

func documentLike(v string) bool {
	return len(v) >= 5 && len(v) <= 20 && mixed(v) && !strings.ContainsAny(v, " .:/@")
}
