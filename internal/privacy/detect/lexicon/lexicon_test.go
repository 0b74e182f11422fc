package lexicon

import "testing"

func TestKind(t *testing.T) {
	for word, want := range map[string]Kind{
		"Ada": Given, "LOVELACE": Surname, "José": Given, "O'Brien": Surname, "Jean-Luc": Given, "Street": Thing, "period": English,
	} {
		if got := Load().Kind(word); got&want == 0 {
			t.Errorf("%s has the kinds %06b, want %06b among them", word, got, want)
		}
	}
	for _, word := range []string{"", "Xyzow", "a word that is longer than every name in the list"} {
		if got := Load().Kind(word); got != 0 {
			t.Errorf("%q has the kinds %06b, want none", word, got)
		}
	}
}

func TestFold(t *testing.T) {
	for word, want := range map[string]string{"José": "jose", "Łukasz": "lukasz", "Jean-Luc": "jean-luc", "O'Brien": "obrien", "": ""} {
		if got := Fold(word); got != want {
			t.Errorf("Fold(%q) = %q, want %q", word, got, want)
		}
	}
}
