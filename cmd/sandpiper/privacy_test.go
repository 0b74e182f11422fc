package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"index/suffixarray"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// token is what stands for a value.
var token = regexp.MustCompile(`\[[A-Z][A-Z0-9_]{1,31}_[0-9a-hjkmnp-tv-z]{16,64}\]`)

// tokensIn are the tokens in a text, each once.
func tokensIn(text string) []string {
	all := token.FindAllString(text, -1)
	slices.Sort(all)
	return slices.Compact(all)
}

// leaks returns those of values that stand in what was heard: as they are, behind
// escapes, or in one of the forms that are promised not to hide
// them. What is shorter than 5 bytes is no value.
func leaks(heard string, values []string) (found []string) {
	views := heard
	for view := unescaped(heard); !strings.HasSuffix(views, view); view = unescaped(view) {
		views += "\x00" + view
	}
	views += "\x00" + html.UnescapeString(views)
	index := suffixarray.New([]byte(views))
	for _, v := range values {
		if len(v) < 5 {
			continue
		}
		all := forms(v)
		names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(part(a)-part(b), strings.Compare(a, b)) })
		if i := slices.IndexFunc(names, func(name string) bool { return len(index.Lookup([]byte(all[name]), 1)) > 0 }); i >= 0 {
			found = append(found, fmt.Sprintf("%q as %s", v, names[i]))
		}
	}
	slices.Sort(found)
	return found
}

// part is 1 of a form that has only some of a value: what is there whole is said to be.
func part(form string) int {
	if form == "beginning" || form == "end" {
		return 1
	}
	return 0
}

// forms are what a value looks like when somebody hides it without effort.
func forms(v string) map[string]string {
	all := map[string]string{
		"it is": v, "upper case": strings.ToUpper(v), "lower case": strings.ToLower(v),
		"hex": hex.EncodeToString([]byte(v)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(v))), "URL": url.QueryEscape(v), "path": url.PathEscape(v), "URI": strings.ReplaceAll(url.QueryEscape(v), "+", "%20"),
	}
	if n := len(v); n >= 16 { // a cut through a value is no better
		all["beginning"], all["end"] = v[:n*3/4], v[n/4:]
	}
	for shift := range 3 {
		bytes := append(make([]byte, shift), v...)
		from, to := (shift*8+5)/6, len(bytes)*8/6
		all[fmt.Sprintf("base64+%d", shift)] = base64.RawStdEncoding.EncodeToString(bytes)[from:to]
		all[fmt.Sprintf("base64url+%d", shift)] = base64.RawURLEncoding.EncodeToString(bytes)[from:to]
	}
	return all
}

// unescaped takes one layer of the escapes of JSON away, wherever they stand.
func unescaped(text string) string {
	var b bytes.Buffer
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'u':
			n, err := strconv.ParseUint(text[i+1:min(len(text), i+5)], 16, 16)
			if err != nil {
				continue
			}
			b.WriteRune(rune(n))
			i += 4
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
