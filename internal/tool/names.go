package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// keywords of Python 3.14, with the soft keywords, which are legal names but
// confusing.
var keywords = wordSet(`False None True and as assert async await break class continue def del elif else except finally for
	from global if import in is lambda nonlocal not or pass raise return try while with yield match case type`)

// reserved names belong to the generated package of a server.
var reserved = wordSet("aio resources prompts")

func wordSet(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// maxName is the maximum length of a name in bytes. A longer one is truncated and
// gets a hash.
const maxName = 80

// ModuleNames maps the names of servers, or of the tools of one server, to Python
// names: unique identifiers (after NFKC normalisation, as Python compares them)
// that are not keywords and do not begin with an underscore. A valid name stays
// unchanged. The result does not depend on the order of names.
func ModuleNames(names []string) map[string]string {
	return distinct(names, func(name string) string {
		id := identifier(name)
		if strings.HasPrefix(id, "_") || digit(id) {
			id = "t" + id
		}
		if reserved[id] {
			id += "_"
		}
		return id
	})
}

// ParamNames maps the parameters of one tool in the same way, but allows one
// leading underscore.
func ParamNames(names []string) map[string]string {
	return distinct(names, func(name string) string {
		id := identifier(name)
		if strings.HasPrefix(id, "__") || digit(id) || id == "_" {
			id = "p" + id
		}
		return id
	})
}

func digit(id string) bool { return id != "" && unicode.IsDigit([]rune(id)[0]) }

// identifier replaces every character that Python does not accept or normalises in a
// name by an underscore.
func identifier(name string) string {
	var b strings.Builder
	for _, r := range norm.NFKC.String(strings.ToValidUTF8(name, "_")) {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) || r > 0xFFFF || unreadable(r) {
			r = '_'
		}
		b.WriteRune(r)
	}
	id := norm.NFKC.String(b.String())
	if len(id) > maxName {
		sum := sha256.Sum256([]byte(name))
		id = strings.ToValidUTF8(id[:maxName-9], "") + "_" + hex.EncodeToString(sum[:4])
	}
	if id == "" {
		id = "_"
	}
	if keywords[id] {
		id += "_"
	}
	return id
}

// unreadable reports whether r is an invisible letter, or U+2E2F, a letter that Python
// does not accept.
func unreadable(r rune) bool {
	return r == '\u2E2F' || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// distinct renames names and numbers duplicates. A name that rename leaves unchanged
// has priority.
func distinct(names []string, rename func(string) string) map[string]string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	ids, taken := make(map[string]string, len(names)), map[string]bool{}
	for _, name := range names {
		if id := rename(name); id == name {
			ids[name], taken[id] = id, true
		}
	}
	tried := map[string]int{} // the last number tried for a name, which keeps many duplicates linear
	for _, name := range names {
		if ids[name] != "" {
			continue
		}
		id := rename(name)
		base := strings.TrimRight(id, "_")
		for taken[id] {
			tried[base]++
			id = base + "_" + strconv.Itoa(tried[base]+1)
		}
		ids[name], taken[id] = id, true
	}
	return ids
}
