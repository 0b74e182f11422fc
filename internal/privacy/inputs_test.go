package privacy_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// input makes a text of any size: before, units and after.
type input struct {
	name          string
	before, after string
	unit          func(i int) string
}

func (in input) text(size int) string {
	var b strings.Builder
	b.WriteString(in.before)
	for i := 0; b.Len() < size; i++ {
		b.WriteString(in.unit(i))
	}
	b.WriteString(in.after)
	return b.String()
}

func same(unit string) func(int) string { return func(int) string { return unit } }

func format(pattern string) func(int) string {
	return func(i int) string { return strings.ReplaceAll(pattern, "%", fmt.Sprint(i)) }
}

// inputs are ordinary texts, and texts that almost are a value everywhere.
var inputs = []input{
	{"mail", "", "", format("u%@example.com ")},
	{"one mail", "", "", same("ada@example.com, ")},
	{"table", "id,name,email,phone\n", "", format("%,Ada Lovelace,u%@example.com,+1 212 555 0123\n")},
	{"rows", "[", "1]", format(`{"id":%,"name":"Ada L%","email":"u%@example.com","amount":12.5,"note":"paid late, twice"},`)},
	{"items", "[", "1]", format(`{"id":%,"title":"Item %","status":"open","score":%,"tags":["alpha","beta"]},`)},
	{"strings", "[", `""]`, format(`"u%@example.com",`)},
	{"pieces", "[", `""]`, same(`"ab",`)},
	{"split mail", "[", `""]`, format(`"to u%@exa","mple.com",`)},
	{"escaped", "[", `""]`, format(`"a\nu%@example.com\t",`)},
	{"JSON in strings", "[", `""]`, format(`"{\"to\":\"u%@example.com\",\"n\":[%]}",`)},
	{"nested", "[", "1]", func(i int) string {
		return strings.Repeat(`[{"a":`, 200) + fmt.Sprintf(`"u%d@example.com"`, i) + strings.Repeat("}]", 200) + ","
	}},
	{"open", "", "", same(`[{"a":`)},
	{"keys", "{", `"z":1}`, format(`"u%@example.com":%,`)},
	{"quotes", "", "", same(`"`)},
	{"backslashes", "", "", same(`\`)},
	{"digits", "", "", same("1234567890")},
	{"numbers", "[", "1]", format("4155550%,")},
	{"phones", "", "", func(i int) string { return fmt.Sprintf("call +1 212 555 %04d or (212) 555-0123; ", i%10_000) }},
	{"groups", "", "", same("12 345-67 ")},
	{"letters", "", "", same("abcdefgh")},
	{"letters apart", "", "", same("a b ")},
	{"broken lines", "", "", same("a\nb\n")},
	{"marks", "", "", same("@.-_")},
	{"names", "", "", format("Dear Ada Lovelace%, ")},
	{"slugs", "", "", same("ada-lovelace-and-")},
	{"prose", "", "", same("The quick review of this change shows that Ada accepts it on Monday. ")},
	{"logs", "", "", format("2026-11-28T10:00:00Z INFO request % from 10.0.0.1 path=/api/items/% user=u%\n")},
	{"assigned", "", "", format("password=Xk29fjQ%zL8 ")},
	{"addresses", "", "", format("https://u%:pass%@host.example/a?b=c ")},
	{"key beginnings", "", "", same("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n")},
	{"tokens", "", "", same("[EMAIL_aaaaaaaaaaaaaaaa]")},
	{"token beginnings", "", "", same("[EMAIL_")},
	{"base64", "", "", func(i int) string {
		return base64.RawStdEncoding.EncodeToString(fmt.Appendf(nil, "u%05d@example.com ..", i))
	}},
	{"hexadecimal", "", "", func(i int) string { return hex.EncodeToString(fmt.Appendf(nil, "u%d@example.com ", i)) }},
	{"URL encoding", "", "", func(i int) string { return fmt.Sprintf("u%d%%40example%%2Ecom%%20", i) }},
	{"code points", "", "", same(`\u0041\u0040`)},
	{"wide", "", "", format("u%@example。com ")},
}

// named returns the inputs with these names.
func named(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, n := range names {
		all[n] = true
	}
	return all
}
