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

// keywords of Python 3.14, soft ones too: those may be names, but read badly.
var keywords = set(`False None True and as assert async await break class continue def del elif else except finally for
	from global if import in is lambda nonlocal not or pass raise return try while with yield match case type`)

// reserved are names that a server's package uses itself.
var reserved = set("aio resources prompts")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// longest name that is kept as it is; a longer one is cut and told apart by a hash.
const longest = 80

// ModuleNames gives each of the names of servers, or of the tools of one server,
// a Python name: an identifier that is no keyword, does not begin with an
// underscore, and differs from all others, as Python compares them. A name that
// is fine keeps itself. Which name gets which does not depend on their order.
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

// ParamNames does the same for the parameters of one tool, which may begin with
// one underscore.
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

// identifier makes a name of letters, digits and underscores that Python reads
// as it stands.
func identifier(name string) string {
	var b strings.Builder
	for _, r := range norm.NFKC.String(strings.ToValidUTF8(name, "_")) {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) || r > 0xFFFF || misread(r) {
			r = '_'
		}
		b.WriteRune(r)
	}
	id := norm.NFKC.String(b.String())
	if len(id) > longest {
		sum := sha256.Sum256([]byte(name))
		id = strings.ToValidUTF8(id[:longest-9], "") + "_" + hex.EncodeToString(sum[:4])
	}
	if id == "" {
		id = "_"
	}
	if keywords[id] {
		id += "_"
	}
	return id
}

// misread are letters that are not seen, and the one that Unicode calls syntax
// and Python does not take.
func misread(r rune) bool {
	return r == '\u2E2F' || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// distinct lets those that keep their own name have it, and numbers the others.
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
	tried := map[string]int{} // the last number tried for a name, so that a thousand alike cost a thousand steps
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
