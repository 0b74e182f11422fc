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

// token matches a privacy token.
var token = regexp.MustCompile(`\[[A-Z][A-Z0-9_]{1,31}_[0-9a-hjkmnp-tv-z]{8,64}\]`)

// tokensIn returns the distinct tokens in a text.
func tokensIn(text string) []string {
	all := token.FindAllString(text, -1)
	slices.Sort(all)
	return slices.Compact(all)
}

// leaks returns the values that occur in the received bytes: unchanged, escaped, or in one
// of the encodings that redaction must detect. Values shorter than 5 bytes are ignored.
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

// part is 1 for a form with only a part of a value, so that whole values are reported first.
func part(form string) int {
	if form == "beginning" || form == "end" {
		return 1
	}
	return 0
}

// forms returns simple encodings of a value.
func forms(v string) map[string]string {
	all := map[string]string{
		"it is": v, "upper case": strings.ToUpper(v), "lower case": strings.ToLower(v),
		"hex": hex.EncodeToString([]byte(v)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(v))), "URL": url.QueryEscape(v),
		"path": url.PathEscape(v), "URI": strings.ReplaceAll(url.QueryEscape(v), "+", "%20"),
	}
	if n := len(v); n >= 16 { // a half is a leak as well
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

// unescaped removes one level of JSON escapes.
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
