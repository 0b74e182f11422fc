package shape

import (
	"strings"
	"unicode"
)

// isData reports whether a key is more likely data than a field name.
func isData(key string) bool {
	if key == "" || len(key) > maxKey {
		return true
	}
	digits, changes := 0, 0 // changes from a digit to a letter, as in an identifier
	before := rune(0)
	for _, r := range key {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			if before >= '0' && before <= '9' {
				changes++
			}
		case strings.ContainsRune("_-.$:", r):
		default:
			return true
		}
		before = r
	}
	return digits > 3 || changes > 1 || digits > 0 && key[0] >= '0' && key[0] <= '9'
}

// keyedByData reports whether the keys of an object are probably data, such as the names of persons:
// all values have the same type, and fewer than half of the keys look like names of fields. A wrong yes
// only hides names of fields, and a wrong no would show data to a model.
func keyedByData(fields map[string]Field) bool {
	first, looks := (*Field)(nil), 0
	for name, f := range fields {
		if looksLikeField(name) {
			looks++
		}
		if len(f.Kinds) == 1 && f.Kinds[0] == "null" {
			continue
		}
		if first != nil && !sameType(first.Type, f.Type) {
			return false
		}
		first = &f
	}
	return len(fields) > 0 && looks*2 < len(fields)
}

// sameType reports whether both types have the same kinds, and objects some common field.
func sameType(a, b Type) bool {
	a.Kinds, b.Kinds = number1(a.Kinds), number1(b.Kinds)
	if len(a.Kinds) != len(b.Kinds) {
		return false
	}
	for i := range a.Kinds {
		if a.Kinds[i] != b.Kinds[i] {
			return false
		}
	}
	if len(a.Fields) == 0 || len(b.Fields) == 0 {
		return true
	}
	for name := range a.Fields {
		if _, both := b.Fields[name]; both {
			return true
		}
	}
	return false
}

// number1 returns kinds with number instead of integer.
func number1(kinds []string) []string {
	if len(kinds) == 1 && kinds[0] == "integer" {
		return []string{"number"}
	}
	return kinds
}

// looksLikeField reports whether a key is a common name of a field, or has several words written as one
// (next_page, nextPage), or at most two characters.
func looksLikeField(key string) bool {
	if len(key) <= 2 || fieldNames[strings.ToLower(key)] || fieldNames[strings.TrimSuffix(strings.ToLower(key), "s")] {
		return true
	}
	if before, after, several := strings.Cut(key, "_"); several {
		return before == "" || fieldNames[strings.ToLower(before)] || fieldNames[strings.ToLower(lastWord(after))] ||
			isLower(before) && isLower(after)
	}
	hump := strings.IndexFunc(key[1:], unicode.IsUpper)
	return hump >= 0 && unicode.IsLower(rune(key[0])) && strings.ToUpper(key) != key
}

func lastWord(text string) string { return text[strings.LastIndexByte(text, '_')+1:] }

func isLower(text string) bool { return text != "" && strings.ToLower(text) == text }

// fieldNames are common names of fields, in the singular.
var fieldNames = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(`id key name title label text value type kind status state code count total sum min max mean average size length width height depth
		number amount price cost currency unit quantity qty sku url uri link href path file filename folder directory content body message error reason note hint comment description summary
		result data item entry row record list array object response output input answer question query page limit offset cursor token next previous first last start end from to begin
		date time timestamp day month year hour minute second created updated deleted modified due expires duration user owner author member person customer account email mail phone address
		street city country region state zip latitude longitude lat lon lng temperature humidity wind weather order invoice payment product stock issue ticket task project repository repo branch
		commit tag category group team role permission event room booking loan book version format language locale source target parent child children index rank score weight rating
		open closed active enabled visible success ok found valid done ready available paid pending failed passed warning info debug level priority color image icon width balance rate
		host port server service method header headers param params argument args option options setting config metadata meta property properties field fields schema table column`) {
		all[name] = true
	}
	return all
}()
