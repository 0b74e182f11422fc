package detect

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"
)

// Each property of a full name has examples with it and without it. The candidate is marked.
func TestFullNameProperties(t *testing.T) {
	for name, c := range map[string]struct {
		holds    func(*fullName) bool
		yes, not []string
	}{
		"endsWithInitial": {(*fullName).endsWithInitial,
			[]string{"«Ada L.» came"}, []string{"«Ada Lovelace» came"}},
		"hasOtherWord": {(*fullName).hasOtherWord,
			[]string{"the «Grace Period» ends", "on «Jackson Street»", "«Zaphod March» came"}, []string{"«Ada Lovelace» came",
				"«Zaphod March» <z@example.org>"}},
		"precedesThing": {(*fullName).precedesThing,
			[]string{"the «Oliver Wyman» Office"}, []string{"the «Oliver Wyman» I know"}},
		"isThing": {(*fullName).isThing,
			[]string{"the «Floyd Warshall» algorithm"}, []string{"the «Floyd Warshall» I know", "«Floyd Warshall» algorithm"}},
		"endsWithAcronym": {(*fullName).endsWithAcronym,
			[]string{"«Mike API» calls"}, []string{"«Mike FABIAN» calls", "«MIKE FABIAN» calls"}},
		"isAllCaps": {(*fullName).isAllCaps,
			[]string{"«JANE ROBERTS» pays", "«JANE R. ROBERTS» pays"}, []string{"«Jane ROBERTS» pays"}},
		"endsWithName": {(*fullName).endsWithName,
			[]string{"«Ada Lovelace» came"}, []string{"«Ada Xyzow» came", "«Ada Period» came"}},
		"isIntroduced": {(*fullName).isIntroduced,
			[]string{"written by «Zaphod Beeblebrox»", "«Zaphod Beeblebrox» <z@example.org>"}, []string{"«Zaphod Beeblebrox» came"}},
		"isInitialAndSurname": {(*fullName).isInitialAndSurname,
			[]string{"«J. Hartley» ordered", "written by «J. Xyzow»"}, []string{"«J Hartley» ordered", "«J. Xyzow» ordered"}},
		"isGivenAndSurname": {(*fullName).isGivenAndSurname,
			[]string{"«Ada Lovelace» came", "«Kevin Xyzow» came"}, []string{"in «Vila de Period»"}},
		"isWordAndSurname": {(*fullName).isWordAndSurname,
			[]string{"met «Will Turner» there", "«Will Kowalski» came"}, []string{"Yes. «Will Xyzow» come?", "the «Grace Xyzow»"}},
		"hasMiddleInitial": {(*fullName).hasMiddleInitial,
			[]string{"«Xyzow K. Lovelace» came"}, []string{"«Xyzow Lovelace» came"}},
		"isSpeaker": {(*fullName).isSpeaker,
			[]string{"«Xyzow Kowalski» wrote"}, []string{"«Xyzow Kowalski» there"}},
		"isName": {(*fullName).isName,
			[]string{"«Ada Lovelace» came", "met «Will Turner» there"}, []string{"the «Grace Period» ends", "«Ada L.» came",
				"at 89 «Joaquin Suarez» 4740"}},
	} {
		for _, text := range c.yes {
			if !c.holds(candidate(t, text)) {
				t.Errorf("%s does not hold for %q", name, text)
			}
		}
		for _, text := range c.not {
			if c.holds(candidate(t, text)) {
				t.Errorf("%s holds for %q", name, text)
			}
		}
	}
}

// candidate returns the marked words of a text as a candidate.
func candidate(t *testing.T, text string) *fullName {
	start := strings.Index(text, "«")
	text = strings.Replace(text, "«", "", 1)
	end := strings.Index(text, "»")
	text = strings.Replace(text, "»", "", 1)
	p := &prose{&passage{text: text}, lexicon.Load()}
	n := &fullName{p: p}
	w, ok := p.capital(start)
	for ; ok; w, ok = p.next(w) {
		if w.start < end {
			n.words = append(n.words, w)
		} else {
			n.rest = append(n.rest, w)
		}
	}
	if len(n.words) < 2 {
		t.Fatalf("%q has %d capitalized words", text, len(n.words))
	}
	return n
}
