package clientconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
)

// Bounds of a file. Claude Code keeps its history in the same one.
const (
	maxFile    = 32 << 20
	maxDepth   = 10_000 // of brackets, which parsers follow by recursion
	maxServers = 500    // in one table
)

// document is a file that was understood.
type document struct {
	root  map[string]any
	names func(table []string) []string // of a table's members, in the order of the file
}

// malformed is what is wrong with a file's text. It holds nothing of the text,
// which may be a secret.
type malformed struct {
	line int
	what string
}

func (m *malformed) Error() string {
	if m.line > 0 {
		return "line " + strconv.Itoa(m.line) + " " + m.what
	}
	return m.what
}

// read returns the file's text, nil if there is no such file.
func (f File) read() ([]byte, error) {
	info, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, &malformed{what: "cannot be read"}
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, &malformed{what: "is no regular file of at most 32 MiB"}
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, &malformed{what: "cannot be read"}
	}
	return text, nil
}

// parse understands a file's text.
func (f File) parse(text []byte) (document, error) {
	text = bytes.TrimPrefix(text, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		return document{names: func([]string) []string { return nil }}, nil
	}
	if depth(text, f.toml) > maxDepth {
		return document{}, &malformed{what: "is nested too deeply"}
	}
	if f.toml {
		return parseTOML(text)
	}
	return parseJSON(text)
}

// bom is what some editors on Windows begin a file with.
var bom = []byte("\ufeff")

// depth is how deeply brackets are nested, or in a text that nobody can parse, to
// where that shows. TOML's strings are not told apart: that bound is rough.
func depth(text []byte, toml bool) (most int) {
	for now, i := 0, 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{':
			now++
			most = max(most, now)
		case ']', '}':
			now--
		case '"', '/':
			if !toml {
				i += aside(text[i:])
			}
		}
	}
	return most
}

// aside is where a string or comment that text begins with has its last byte.
func aside(text []byte) int {
	end := []byte("\"")
	switch {
	case bytes.HasPrefix(text, []byte("//")):
		end = []byte("\n")
	case bytes.HasPrefix(text, []byte("/*")):
		end = []byte("*/")
	case text[0] == '/':
		return 0
	}
	for i := min(len(end), len(text)-1); i < len(text); i++ {
		switch {
		case end[0] == '"' && text[i] == '\\':
			i++
		case bytes.HasPrefix(text[i:], end):
			return i + len(end) - 1
		}
	}
	return len(text)
}

// parseJSON reads JSON as clients write it, with comments and trailing commas.
func parseJSON(text []byte) (document, error) {
	tree, err := hujson.Parse(text)
	if err != nil {
		return document{}, &malformed{lineOf(err), "is not JSON"}
	}
	if _, ok := tree.Value.(*hujson.Object); !ok {
		return document{}, &malformed{what: "holds no JSON object"}
	}
	plain := tree.Clone()
	plain.Standardize()
	d := document{names: func(table []string) []string { return membersJSON(&tree, table) }}
	dec := json.NewDecoder(bytes.NewReader(plain.Pack()))
	dec.UseNumber()
	if err := dec.Decode(&d.root); err != nil {
		return document{}, &malformed{what: "is not JSON"}
	}
	return d, nil
}

// lineOf takes the line from an error of hujson, whose other words may quote the
// file.
func lineOf(err error) int {
	_, rest, _ := strings.Cut(err.Error(), "line ")
	number, _, _ := strings.Cut(rest, ",")
	line, _ := strconv.Atoi(number)
	return line
}

// membersJSON names an object's members; of two with one name the last counts.
func membersJSON(tree *hujson.Value, table []string) (names []string) {
	obj := objectAt(tree, table)
	if obj == nil {
		return nil
	}
	for _, m := range obj.Members {
		name := nameOf(m)
		names = append(slices.DeleteFunc(names, func(n string) bool { return n == name }), name)
	}
	return names
}

func parseTOML(text []byte) (document, error) {
	var d document
	if err := toml.Unmarshal(text, &d.root); err != nil {
		m := &malformed{what: "is not TOML"}
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			m.line, _ = e.Position()
		}
		return document{}, m
	}
	d.names = func(table []string) []string {
		first := map[string]int{}
		for i, s := range slices.Backward(sections(text)) {
			if s.within(table) && len(s.table) > len(table) {
				first[s.table[len(table)]] = i
			}
		}
		named := slices.Sorted(maps.Keys(tableIn(d.root, table)))
		slices.SortStableFunc(named, func(a, b string) int { return first[a] - first[b] })
		return named
	}
	return d, nil
}

// tableIn follows keys from root; nil if they lead nowhere.
func tableIn(root map[string]any, keys []string) map[string]any {
	for _, key := range keys {
		root, _ = root[key].(map[string]any)
	}
	return root
}
