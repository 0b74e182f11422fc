package detect

import (
	"strings"
	"testing"
)

func TestDetectReadsAttributesAndElements(t *testing.T) {
	for text, want := range map[string]string{
		`Customer(id=5, name='Ada Lovelace', first_name="Grace")`: "Ada Lovelace|Grace",
		`full_name = "Ada Lovelace"`:                              "Ada Lovelace",
		`<name>Ada Lovelace</name><FirstName>Grace</FirstName>`:   "Ada Lovelace|Grace",
		`<person first-name="Grace"/>`:                            "Grace",
		`name='Blue'`:                                             "", // a single word under "name" is not a person's name
		`title='Ada Lovelace'`:                                    "",
		`name=Ada Lovelace`:                                       "",
		"first_name='Gra\nce'":                                    "",
		`<name attr="x">Ada Lovelace</name>`:                      "",
		`</name>Ada Lovelace<b>`:                                  "",
		`first_name='`:                                            "",
		`first_name=`:                                             "",
		`=''`:                                                     "",
		`<first_name>`:                                            "",
		`<`:                                                       "",
		``:                                                        "",
	} {
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range s.decide(attributes(&s.rules.keys, text), text) {
			got = append(got, text[f.Start:f.End])
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s has %q, want %q", text, got, want)
		}
	}
}

func FuzzAttributes(f *testing.F) {
	f.Add(`first_name='Ada' <street>1 Main Street</street>`)
	s, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range s.decide(attributes(&s.rules.keys, text), text) {
			if p.Start < 0 || p.End <= p.Start || p.End > len(text) {
				t.Fatalf("%q: %+v", text, p)
			}
		}
	})
}
