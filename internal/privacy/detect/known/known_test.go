package known_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
)

func index(values ...string) *known.Index {
	x := known.New(1000)
	for _, v := range values {
		x.Add("KNOWN", v)
	}
	return x
}

// mark returns text with « and » around the findings.
func mark(text string, found []detect.Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		fmt.Fprintf(&b, "%s«%s»", text[at:f.Start], text[f.Start:f.End])
		at = f.End
	}
	return b.String() + text[at:]
}

var unmark = strings.NewReplacer("«", "", "»", "")

func TestFind(t *testing.T) {
	for _, c := range []struct{ value, marked string }{
		{"bob@corp.com", "«bob@corp.com» and «BOB@Corp.com», («bob@corp.com»)"},
		{"bob@corp.com", "not«bob@corp.com» «bob@corp.com»x «bob@corp.com»_x _«bob@corp.com» 1«bob@corp.com»«bob@corp.com»2"},
		{"bob@corp.com", `\n«bob@corp.com»\t«bob@corp.com»\n \x«bob@corp.com»`},
		{"Ada Lovelace", "«ADA LOVELACE», «Ada Lovelace»'s «ada lovelace»"},
		{"Ada Lovelace", "é«Ada Lovelace» Ada Lovelacé 王«Ada Lovelace»王 —«Ada Lovelace»—"},
		{"Zoë Ünal", "«Zoë Ünal» «zoë Ünal» a«Zoë Ünal»"},
		{"Grace", "«Grace» GRACE grace «Grace»ful dis«Grace» my_«Grace» «Grace»_x «Grace».x"},
		{"Quarterstaff", "«quarterstaff».txt QUARTERSTAFF out/«QUARTERSTAFF»-2 zebulon-«quarterstaff» by_«quarterstaff»_v2 " +
			"/«quarterstaff»/ a.«quarterstaff».b"},
		{"Quarterstaff", "quarterstaff. Then quarterstaff, quarterstaffs.txt x_quarterstaff2 «Quarterstaff»s.txt (quarterstaff) " +
			"-quarterstaff and/or «quarterstaff»~1"},
		{"quarterstaff", "«Quarterstaff» quarterstaffs by_«quarterstaff»_2 «QUARTERSTAFF»"},
		{"Grace", "grace_period /grace/ grace.txt GRACE-1 «Grace».txt"},
		{"Ünalöz", "«ünalöz».txt out/«ÜNALÖZ» «unaloz»-2 ünalöz unaloz"},
		{"Иванов", "«иванов».txt out/«ИВАНОВ»_1 иванов ивановa.txt"},
		{"success", "«success» «Success» successful unsuccess"},
		{"Grac", "«Grac» «Grac»-x Grace grac disGrac GRAC"},
		{"Ann", "«Ann» Annual («Ann») JoAnn ann «Ann»_report.csv by_«Ann» _«Ann»_ Annex_Ann1"},
		{"Li", "«Li» Lie «Li»"},
		{"li", "li"}, {"A", "A"}, {"1234", "1234"},
		{"12345", "«12345» 123456 x12345 _«12345»_ 1.«12345»"},
		{"212-555-0123", "«212-555-0123» «(212) 555 0123» «2125550123» «212.555.0123» +1 «212 - 555 - 0123»"},
		{"212-555-0123", "«212-555-0123»4 12125550123 x«2125550123» 212 55501234 121255501234 212    5550123 212,555,0123 (see " +
			"«2125550123»)"},
		{"+1 (212) 555-0123", "«+1 (212) 555-0123» +«12125550123» 2125550123"},
		{"123-45-6789", "«123-45-6789» «123456789» «123 45 6789» 1«123-45-6789»1 11234567891"},
		{"536-22-1934", "«536,221,934» «536_221_934» «536'221'934» «536.221.934» «536’221’934» «536·221·934» «536٬221٬934» " +
			"«53,62,21,934» «5,3622,1934»"},
		{"536-22-1934", "(«536,221,934»), «536,221,934».00 «536,221,934»,5 $«536,221,934» -«536_221_934» 000«536221934»"},
		{"536-22-1934", "1,536,221,934 1_536_221_934 536_221_934_000 536,221,934,000 536,22,1934 536,221_934 53,6221,934 536, 221, 934 " +
			"1536_221_934 536,221,9345"},
		{"536-22-1934", "«536_22_1934».txt «536__22_1934» a_«536-22_1934»"},
		{"+49 30 901820", "+«49_30_901820».txt out/«4930_901820»_b"},
		{"(212) 555-0123", "«(212)_555-0123».txt «212_555_0123»_b"},
		{"4111 1111 1111 1111", "«4,111,111,111,111,111» «4_111_111_111_111_111» «4111,1111,1111,1111» 44,111,111,111,111,111"},
		{"123-45-6789", "1234567890123456 0123 9123456789 «123456789» 1234567890 1.«123456789»"},
		{"123456789", "1234567890123456 0123 9123456789 «123456789» 1234567890 x«123456789»x"},
		{"4111111111111111", "41111111111111111 14111111111111111 «4111111111111111»"},
		{"0131 496 0120", "«1314960120» «1,314,960,120» «01314960120» 13149601201"},
		{"555-012", "«555-012» 555012 555 012"},
		{"#!/secret", "x«#!/secret» «#!/secret»s"},
		{"one two", "«one two» one «one two» one tw «one two»s"},
		{strings.Repeat("long ", 200) + "end", "«" + strings.Repeat("long ", 200) + "end» " + strings.Repeat("long ", 199) + "end"},
		{strings.Repeat("a b", 6000), strings.Repeat("a b", 6000)},
		{"bro\xffken", "bro\xffken"},
		{"bob@corp.com", "\xff«bob@corp.com»\xff"},
	} {
		text := unmark.Replace(c.marked)
		if got := mark(text, index(c.value).Find(text)); got != c.marked {
			t.Errorf("%.40q\n got %.200q\nwant %.200q", c.value, got, c.marked)
		}
	}
}

func TestFindPrefersLongestValue(t *testing.T) {
	x := index("Ada Lovelace", "Ada Lovelace, Countess", "Ada Lovelace, Count", "Ada Lovelace, Countess of Lovelace, born Byron")
	for _, want := range []string{"«Ada Lovelace, Countess» of x", "«Ada Lovelace, Count» x", "«Ada Lovelace», Coun",
		"«Ada Lovelace, Countess of Lovelace, born Byron»"} {
		text := unmark.Replace(want)
		if got := mark(text, x.Find(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAddKeepsType(t *testing.T) {
	x := known.New(10)
	x.Add(detect.Name, "Ada Lovelace")
	x.Add("AUTHOR", "ADA LOVELACE")
	want := []detect.Finding{{Type: detect.Name, Start: 3, End: 15, Score: 1}}
	if d := cmp.Diff(want, x.Find("by ada lovelace.")); d != "" {
		t.Error(d)
	}
}

func TestAddRemovesOldestValue(t *testing.T) {
	x := known.New(3)
	for _, v := range []string{"value 1", "value 2", "555-0123", "VALUE 1", "value 4"} {
		x.Add("KNOWN", v)
	}
	text := "value 1, value 2, 5550123, value 4"
	if got, want := mark(text, x.Find(text)), "«value 1», value 2, «5550123», «value 4»"; got != want || x.Len() != 3 {
		t.Errorf("got %q of %d", got, x.Len())
	}
	for i := range 1000 {
		x.Add("KNOWN", fmt.Sprintf("value %d", 5+i))
	}
	text = "value 1, value 1001, value 1002, value 1003, 5550123, value 1004"
	if got, want := mark(text, x.Find(text)), "value 1, value 1001, «value 1002», «value 1003», 5550123, «value 1004»"; got != want ||
		x.Len() != 3 {
		t.Errorf("got %q of %d", got, x.Len())
	}
}

func TestNumberIsFoundUntilAllFormsAreRemoved(t *testing.T) {
	x := known.New(2)
	for _, v := range []string{"555-0123", "555 0123", "555-0123", "another one"} {
		x.Add("KNOWN", v)
	}
	if got := mark("5550123", x.Find("5550123")); got != "«5550123»" {
		t.Error(got)
	}
	x.Add("KNOWN", "one more")
	if found := x.Find("5550123"); found != nil {
		t.Error(found)
	}
}

func TestIndexOfZeroValues(t *testing.T) {
	for _, most := range []int{0, -1} {
		x := known.New(most)
		x.Add("KNOWN", "value 1")
		if x.Len() != 0 || x.Find("value 1") != nil {
			t.Error(x.Len())
		}
	}
}

func TestFindCoversOverlappingAndAdjacentValues(t *testing.T) {
	x := index("ada@example.com", "Lovelace-ada", "131-42-4002", "4111111111111111", "21114111", "Ann", "lovelace", "002-11")
	for _, want := range []string{
		"«ada@example.com»«131-42-4002»«4111111111111111»",
		"«Lovelace-ada@example.com»",       // both of two overlapping values are covered
		"«131-42-4002-11»",                 // also a number and the digits that seem to continue it
		"«131424002»«4111111111111111»",    // each is a border of the other
		"«Ann»«ada@example.com»«lovelace»", // also of a short value and of a word
		"Annada@example.co",
		"x«ada@example.com»«Ann» «Ann»",
		"«131424002»«4111111111111111»«131424002»",
		"«131-42-4002»7«4111111111111111»0«ada@example.com»", // a character between values is no part of either
		"131424002774111111111111111",
		"«ada@example.com»lovelaces",
	} {
		text := unmark.Replace(want)
		if got := mark(text, x.Find(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFindSqueezed(t *testing.T) {
	x := index("Ada Lovelace", "DE89 3704 0044 0532 0130 00", "ghp-rux89mufsmjg", "131-42-4002", "Theo", "Zoë Li", "219-09-9999",
		"4111 1111 1111 1111")
	for _, c := range []struct{ text, want string }{
		{"dear | Ada | Love | lace |, no", "dear«AdaLovelace»,no"},
		{"DE89 | 3704 | 0044 | 0532 | 0130 | 00", "«DE89370400440532013000»"},
		{"xghprux | 89mufsmjg", "x«ghprux89mufsmjg»"},
		{"1 | 131424002", "1«131424002»"},
		{"1 | 131424002 | 1", "1«131424002»1"},
		{"113 | 1424002", "1131424002"},
		{"The | o", "Theo"},
		{"Zoë | Li", "«ZoëLi»"},
		{"Zoë | List", "ZoëList"},
		{"131 | 424002 | 219099999", "«131424002»«219099999»"},
		{"13142 | 40022190 | 99999131424002", "«131424002»«219099999»«131424002»"},
		{"13142 | 400221909 | 99991", "1314240022190999991"},
		{"4111 | 11111111 | 1111131424 | 002", "«4111111111111111»«131424002»"},
		{"74111 | 11111111 | 111170", "7411111111111111170"},
		{"x131 | 424002x", "x«131424002»x"},
		{"Zoë | LiZo | ëLi", "«ZoëLi»«ZoëLi»"},
		{"Zoë | LiZo | ëList", "ZoëLiZoëList"},
	} {
		var text strings.Builder
		var gaps []int
		for i, part := range strings.Split(strings.ReplaceAll(c.text, " ", ""), "|") {
			if i > 0 {
				gaps = append(gaps, text.Len())
			}
			text.WriteString(part)
		}
		if got := mark(text.String(), x.FindSqueezed(text.String(), gaps)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

// Memory is bounded where every position begins many numbers.
func TestNumbersWithinDigitsAreBounded(t *testing.T) {
	x := known.New(100)
	for n := 7; n <= 19; n++ {
		x.Add("KNOWN", strings.Repeat("1", n))
	}
	text := "x2" + strings.Repeat("1", 1<<18) + "2x"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x.Find(text)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("allocated %d MB for %d KB", used>>20, len(text)>>10)
	}
}

// A value that was added before Find is found during concurrent calls of Add.
func TestAddAndFindAreConcurrent(t *testing.T) {
	x := known.New(5000)
	x.Add("KNOWN", "Ada Lovelace")
	text := strings.Repeat("Ada Lovelace wrote to value 7. ", 20000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				x.Add("KNOWN", fmt.Sprintf("value %d of %d with %s", i, g, strings.Repeat("x", i%50)))
			}
		})
		wg.Go(func() {
			if found := x.Find(text); len(found) != 20000 {
				t.Errorf("found %d", len(found))
			}
		})
	}
	wg.Wait()
	if x.Len() != 4001 {
		t.Error(x.Len())
	}
}
