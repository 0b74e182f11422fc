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

// Limits of a file. Claude Code stores its history in its configuration file.
const (
	maxFile    = 32 << 20
	maxDepth   = 10_000 // of brackets; the parsers are recursive
	maxServers = 500    // in one table
)

// document is a parsed file.
type document struct {
	root  map[string]any
	names func(table []string) []string // the keys of a table in file order
}

// syntaxError is an error in the text of a file. It quotes nothing of the text,
// which may contain secrets.
type syntaxError struct {
	line    int
	message string
}

func (e *syntaxError) Error() string {
	if e.line > 0 {
		return "line " + strconv.Itoa(e.line) + " " + e.message
	}
	return e.message
}

// document reads and parses the file; an absent file is empty.
func (f File) document() (document, error) {
	text, err := f.read()
	if err != nil {
		return document{}, err
	}
	return f.parse(text)
}

// read returns the text of the file, nil if it does not exist.
func (f File) read() ([]byte, error) {
	info, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, &syntaxError{message: "cannot be read"}
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, &syntaxError{message: "is not a regular file of at most 32 MiB"}
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, &syntaxError{message: "cannot be read"}
	}
	return text, nil
}

// parse parses the text of the file.
func (f File) parse(text []byte) (document, error) {
	text = bytes.TrimPrefix(text, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		return document{names: func([]string) []string { return nil }}, nil
	}
	if nesting(text, f.toml) > maxDepth {
		return document{}, &syntaxError{message: "is nested too deeply"}
	}
	if f.toml {
		return parseTOML(text)
	}
	return parseJSON(text)
}

// bom is the byte order mark that some Windows editors write.
var bom = []byte("\ufeff")

// nesting returns the greatest depth of brackets outside strings and comments.
// In TOML it counts those in strings as well, which makes the limit approximate.
func nesting(text []byte, toml bool) (deepest int) {
	for depth, i := 0, 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		case '"', '/':
			if !toml {
				i += lastOfToken(text[i:])
			}
		}
	}
	return deepest
}

// lastOfToken returns the index of the last byte of the JSON string or comment
// at the start of text.
func lastOfToken(text []byte) int {
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

// parseJSON parses JSON with comments and trailing commas, which clients accept.
func parseJSON(text []byte) (document, error) {
	tree, err := hujson.Parse(text)
	if err != nil {
		return document{}, &syntaxError{lineOf(err), "is not JSON"}
	}
	if _, ok := tree.Value.(*hujson.Object); !ok {
		return document{}, &syntaxError{message: "does not contain a JSON object"}
	}
	plain := tree.Clone()
	plain.Standardize()
	d := document{names: func(table []string) []string { return memberNames(&tree, table) }}
	dec := json.NewDecoder(bytes.NewReader(plain.Pack()))
	dec.UseNumber()
	if err := dec.Decode(&d.root); err != nil {
		return document{}, &syntaxError{message: "is not JSON"}
	}
	return d, nil
}

// lineOf returns the line in an error of hujson. The rest of that error may
// quote the file.
func lineOf(err error) int {
	_, rest, _ := strings.Cut(err.Error(), "line ")
	number, _, _ := strings.Cut(rest, ",")
	line, _ := strconv.Atoi(number)
	return line
}

// memberNames returns the names of an object's members. The last of two members
// with the same name counts.
func memberNames(tree *hujson.Value, table []string) (names []string) {
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
		invalid := &syntaxError{message: "is not TOML"}
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			invalid.line, _ = e.Position()
		}
		return document{}, invalid
	}
	d.names = func(table []string) []string {
		first := map[string]int{}
		for i, s := range slices.Backward(sections(text)) {
			if s.within(table) && len(s.table) > len(table) {
				first[s.table[len(table)]] = i
			}
		}
		names := slices.Sorted(maps.Keys(tableAt(d.root, table)))
		slices.SortStableFunc(names, func(a, b string) int { return first[a] - first[b] })
		return names
	}
	return d, nil
}

// tableAt returns the table at a path of keys, nil if there is none.
func tableAt(root map[string]any, keys []string) map[string]any {
	for _, key := range keys {
		root, _ = root[key].(map[string]any)
	}
	return root
}
