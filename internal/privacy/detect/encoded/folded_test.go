package encoded_test

import (
	"net/url"
	"slices"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// A known value is found as names of files and identifiers have it, in other characters that look the
// same, and with invisible ones between. The whole text is the value, up to the brackets.
func TestFindOtherSpellings(t *testing.T) {
	decomposed := norm.NFD.String
	for _, c := range []struct{ value, marked string }{
		{"Zebulon Quarterstaff", "«zebulonQuarterstaff».txt"}, {"Zebulon Quarterstaff", "get«ZebulonQuarterstaff»Invoice()"},
		{"Zebulon Quarterstaff", "«zebulon%5Fquarterstaff».txt"},
		{"Zebulon Quarterstaff", "«Zeb\u200bulon Quarter\u200dstaff»"}, {"Zebulon Quarterstaff", "«zeb\u200bulon_quarter\u200dstaff».txt"},
		{"Zebulon Quarterstaff", "«zebulon\u200b_quarterstaff»"},
		{"Quarterstaff", "«quarter\u200bstaff».txt"}, {"Quarterstaff", "«quarterstaff»Report.csv"}, {"bob@corp.com",
			"«bob\u200b@corp.com»"},
		{"Zebulon Quarterstaff", "«Ｚｅｂｕｌｏｎ Ｑｕａｒｔｅｒｓｔａｆｆ»"}, {"bob@corp.com", "«ｂｏｂ＠ｃｏｒｐ．ｃｏｍ»"},
		{"Ann Li", "x/«AnnLi»Invoice.pdf «annLi».txt «ann_li»_2 scannLimit annlist AnnList"}, {"Li Wu",
			"«li-wu» «li_wu».txt «LiWu».txt x/«liWu» li-wun liwu LIWU"},
		{"Ann", "«ann»_report.csv report-«ann».csv «ANN»-report ann annual_ann1 x.annex (ann)"}, {"Zoë",
			"«zoe»_report.csv «zoë».txt «Zoe»_report zoe"}, {"Max", "max_length"},
		{"Zoë Ünalöz", decomposed("«Zoë Ünalöz»")}, {decomposed("Zoë Ünalöz"), "«Zoë Ünalöz»"}, {decomposed("Zoë Ünalöz"),
			decomposed("«Zoë Ünalöz»")}, {"Zoë Ünalöz", decomposed("«zoë_ünalöz».txt")},
		{"Zoë Ünalöz", "«" + url.PathEscape(decomposed("zoë_ünalöz")) + "».txt"}, {"Zoë", decomposed("«Zoë»")}, {"Ünalöz",
			decomposed("«ünalöz».txt")}, {"ガブリエル", decomposed("«ガブリエル»")},
		{"536-22-1934", "«536\u2009221\u2009934»"}, {"536-22-1934", "«536\u00a0221\u00a0934»"}, {"536-22-1934", "«536'221'934»"},
		{"536-22-1934", "«536\u200b22\u200b1934»"},
		{"536-22-1934", "«５３６２２１９３４»"}, {"536-22-1934", "«５３６－２２－１９３４»"}, {"536-22-1934", "«５３６，２２１，９３４»"}, {"536-22-1934", "«٥٣٦٢٢١٩٣٤»"},
		{"536-22-1934", "«٥٣٦-٢٢-١٩٣٤»"},
		{"536-22-1934", "«٥٣٦٬٢٢١٬٩٣٤»"}, {"536-22-1934", "«۵۳۶۲۲۱۹۳۴»"}, {"536-22-1934", "«५३६२२१९३४»"}, {"536-22-1934", "«𝟱𝟯𝟲𝟮𝟮𝟭𝟵𝟯𝟰»"},
		{"536-22-1934", "１５３６２２１９３４ ٥٣٦٢٢١٩٣٤٥"},
		{"4111 1111 1111 1111", "«４１１１ １１１１ １１１１ １１１１»"},
	} {
		text := unmark.Replace(c.marked)
		f := finder(t, c.value)
		f.Scan = nil
		found := detect.Resolve(slices.Concat(f.Find(text), f.Known(text)), text)
		if got := mark(text, found); got != c.marked {
			t.Errorf("%q\n got %q\nwant %q", c.value, got, c.marked)
		}
	}
}
