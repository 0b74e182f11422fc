package detect_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

const developmentCases = "../../../../shared/data/pii/cases-dev.jsonl.gz"

// labelledCase is a text with the expected findings. Only the types in Scope count.
type labelledCase struct {
	ID       string
	Text     string
	Scope    []detect.Type
	Strength string
	Group    string
	Entities []struct {
		Type       detect.Type
		Start, End int
	}
}

// floors has the minimum recall and precision on the strong cases.
var floors = map[detect.Type][2]float64{
	detect.Email: {1, 1}, detect.Phone: {0.99, 0.99}, detect.SSN: {1, 1}, detect.CreditCard: {1, 1}, detect.IPAddress: {1, 1},
	detect.APIKey: {0.97, 0.965},
	detect.IBAN:   {1, 1}, detect.Crypto: {1, 1}, detect.MACAddress: {1, 1}, detect.URLCredentials: {1, 1}, detect.JWT: {1, 1},
	detect.PrivateKey: {1, 1},
	detect.USPassport: {1, 1}, detect.USDriverLicense: {1, 1}, detect.USITIN: {1, 1},
}

// tally counts expected findings, those found, those found exactly, and unexpected ones.
type tally struct{ want, hit, exact, extra int }

func (t tally) recall() float64    { return ratio(t.hit, t.want) }
func (t tally) precision() float64 { return ratio(t.hit, t.hit+t.extra) }

func ratio(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// TestRecallOfDevelopmentCases prints recall and precision and compares them with
// floors. The cases are split into three parts by ID; rules are written from the errors
// of the first two only, so the third measures how well they generalize.
func TestRecallOfDevelopmentCases(t *testing.T) {
	cases := read(t)
	strong, parts, groups := map[detect.Type]*tally{}, map[string]*tally{}, map[string]*tally{}
	for _, c := range cases {
		part := "tuned on:"
		if third(c.ID) == heldOut {
			part = "held out:"
		}
		score(t, c, func(typ detect.Type) []*tally {
			if c.Strength != "strong" {
				return []*tally{in(parts, c.Strength+" "+string(typ))}
			}
			return []*tally{in(strong, typ), in(parts, part+" "+string(typ)), in(groups, c.Group+" "+string(typ))}
		})
	}
	print(t, "strong cases", strong)
	print(t, "by part, and what is not strong", parts)
	print(t, "strong cases by group", groups)
	for typ, floor := range floors {
		got := in(strong, typ)
		if got.recall() < floor[0] || got.precision() < floor[1] {
			t.Errorf("%s: recall %.3f, precision %.3f; want at least %.2f, %.2f", typ, got.recall(), got.precision(), floor[0], floor[1])
		}
	}
}

// TestRecallOfNamesAndAddresses does the same for testdata/named.txt, which has the
// format of testdata/cases.txt but contains lines with known errors.
func TestRecallOfNamesAndAddresses(t *testing.T) {
	b, err := os.ReadFile("testdata/named.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[detect.Type]*tally{}
	for line := range strings.Lines(string(b)) {
		typ, marked, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok || strings.HasPrefix(typ, "#") {
			continue
		}
		marked = unescape.Replace(marked)
		text, sum := unmark.Replace(marked), in(sums, detect.Type(typ))
		got := mark(text, detect.Type(typ), scanner(t).Scan(text))
		want, found := between(marked), between(got)
		sum.want += len(want)
		for _, f := range found {
			if slices.Contains(want, f) {
				sum.hit++
				sum.exact++
			} else {
				sum.extra++
			}
		}
		if got != marked {
			t.Logf("got %q, want %q", got, marked)
		}
	}
	print(t, "names and addresses", sums)
	for typ, floor := range map[detect.Type][2]float64{detect.Name: {0.85, 0.9}, detect.Address: {0.85, 0.9}} {
		if got := in(sums, typ); got.want == 0 || got.recall() < floor[0] || got.precision() < floor[1] {
			t.Errorf("%s: %+v", typ, *got)
		}
	}
}

// between returns the texts between « and ».
func between(marked string) (parts []string) {
	for _, rest := range strings.Split(marked, "«")[1:] {
		part, _, _ := strings.Cut(rest, "»")
		parts = append(parts, part)
	}
	return parts
}

func read(t *testing.T) (cases []labelledCase) {
	f, err := os.Open(developmentCases)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the development cases are missing: %s", developmentCases)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c labelledCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		for i := range c.Scope {
			c.Scope[i] = typeOf(c.Scope[i])
		}
		for i := range c.Entities {
			c.Entities[i].Type = typeOf(c.Entities[i].Type)
		}
		cases = append(cases, c)
	}
	return cases
}

// typeOf converts a type of the cases to the type of this package.
func typeOf(t detect.Type) detect.Type {
	if t == "US_SSN" {
		return detect.SSN
	}
	return t
}

func score(t *testing.T, c labelledCase, tallies func(detect.Type) []*tally) {
	found := scanner(t).Scan(c.Text)
	for _, typ := range c.Scope {
		if !known[typ] {
			continue
		}
		var one tally
		matched := map[int]bool{}
		for _, e := range c.Entities {
			if e.Type != typ {
				continue
			}
			one.want++
			for i, f := range found {
				if f.Type == typ && f.Start < e.End && e.Start < f.End {
					matched[i] = true
				}
			}
			if slices.ContainsFunc(found, func(f detect.Finding) bool { return f.Type == typ && f.Start < e.End && e.Start < f.End }) {
				one.hit++
			} else if os.Getenv("PII_ERRORS") != "" && third(c.ID) != heldOut {
				t.Logf("missed %s %s %s: %.200q in %.300q, found %v", c.Strength, c.Group, typ, c.Text[e.Start:e.End], c.Text, found)
			}
			if slices.ContainsFunc(found, func(f detect.Finding) bool { return f.Type == typ && f.Start == e.Start && f.End == e.End }) {
				one.exact++
			} else if os.Getenv("PII_ERRORS") == "exact" && third(c.ID) != heldOut {
				t.Logf("inexact %s %s: %.200q in %.300q, found %v", c.Group, typ, c.Text[e.Start:e.End], c.Text, found)
			}
		}
		for i, f := range found {
			if f.Type == typ && !matched[i] {
				one.extra++
				if os.Getenv("PII_ERRORS") != "" && third(c.ID) != heldOut {
					t.Logf("extra %s %s %s: %.200q in %.300q", c.Strength, c.Group, typ, c.Text[f.Start:f.End], c.Text)
				}
			}
		}
		for _, sum := range tallies(typ) {
			sum.want += one.want
			sum.hit += one.hit
			sum.exact += one.exact
			sum.extra += one.extra
		}
	}
}

var known = map[detect.Type]bool{detect.Email: true, detect.Phone: true, detect.SSN: true, detect.CreditCard: true, detect.IPAddress: true,
	detect.APIKey: true, detect.IBAN: true,
	detect.MACAddress: true, detect.Crypto: true, detect.URLCredentials: true, detect.JWT: true, detect.PrivateKey: true,
	detect.USPassport: true, detect.USDriverLicense: true, detect.USITIN: true}

func in[K comparable](m map[K]*tally, k K) *tally {
	if m[k] == nil {
		m[k] = &tally{}
	}
	return m[k]
}

func print[K cmp.Ordered](t *testing.T, title string, m map[K]*tally) {
	t.Log(title)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s := m[k]
		if s.want+s.extra == 0 {
			continue
		}
		t.Logf("  %-32v recall %.3f precision %.3f  (%d of %d, %d exact, %d extra)", k, s.recall(), s.precision(), s.hit, s.want, s.exact,
			s.extra)
	}
}

// heldOut is the third of the cases whose errors are not printed.
const heldOut = 2

func third(id string) uint32 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint32(sum[4:]) % 3
}

func scanner(t testing.TB) *detect.Scanner {
	s, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
