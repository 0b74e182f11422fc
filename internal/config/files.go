package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	yamltoken "github.com/goccy/go-yaml/token"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// maxFile limits the size of a configuration file.
const maxFile = 1 << 20

// take adds settings of the YAML file at path.
func (l *loader) take(path string, settings []setting) {
	if isSeed(path, settings) {
		l.seed(settings)
		return
	}
	for _, s := range settings {
		l.add(s)
	}
}

// parseYAML returns the settings of a file in order.
func (t *table) parseYAML(path string) ([]setting, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "%s cannot be read", path)
	}
	return t.settingsIn(path, data)
}

// settingsIn is parseYAML for a given text of the file at path.
func (t *table) settingsIn(path string, data []byte) ([]setting, error) {
	tokens := lexer.Tokenize(strings.ReplaceAll(string(data), "\r\n", "\n")) // as in parseText
	if line := tangled(tokens); line > 0 {
		return nil, fault.New(fault.Invalid, "%s line %d: values are nested more than %d deep, or a mapping has more than %d keys",
			filepath.Base(path), line, maxNesting, maxKeys)
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntax(path, err)
	}
	f := flattener{name: filepath.Base(path), dir: filepath.Dir(path), structured: t.structured}
	for i, doc := range file.Docs {
		if i > 0 && doc.Body != nil {
			return nil, fault.New(fault.Invalid, "%s contains more than one document; only one is allowed", path)
		}
		f.node("", doc.Body)
	}
	return f.list, f.err
}

// Limits of a file whose author may not be trusted yet: time and memory of the parser grow with
// the square of each.
const (
	maxNesting = 64
	maxKeys    = 10_000 // and documents
)

// tangled returns the line of the first token that exceeds a limit, 0 if there is none.
func tangled(tokens yamltoken.Tokens) int {
	type block struct{ column, keys int }
	var open []block // by indentation
	flow, entries, documents, line := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, entries = t.Position.Line, 0
			for len(open) > 0 && open[len(open)-1].column > t.Position.Column {
				open = open[:len(open)-1]
			}
			if n := len(open); n == 0 || open[n-1].column < t.Position.Column {
				open = append(open, block{t.Position.Column, 0})
			}
		}
		switch t.Type {
		case yamltoken.MappingStartType, yamltoken.SequenceStartType:
			flow++
		case yamltoken.MappingEndType, yamltoken.SequenceEndType:
			flow--
		case yamltoken.SequenceEntryType, yamltoken.MappingKeyType:
			entries++
		case yamltoken.DocumentHeaderType:
			documents++
		case yamltoken.MappingValueType:
			if flow == 0 && entries == 0 {
				open[len(open)-1].keys++
			}
		}
		if flow+entries+len(open) > maxNesting || documents > maxKeys || open[len(open)-1].keys > maxKeys {
			return line
		}
	}
	return 0
}

// readFile reads a regular file. It checks the opened file, so that replacing the file
// has no effect.
func readFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, maxFile)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, err
}

// keyTwice matches the parser's message for a repeated key.
var keyTwice = regexp.MustCompile(`^mapping key ("[^"]*") already defined at \[([0-9]+):`)

// syntax shortens an error of the parser to one line. The full error quotes the source,
// which may contain secrets.
func syntax(path string, err error) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		return fault.Wrap(fault.Invalid, err, "%s is not YAML", path)
	}
	at, text := fmt.Sprintf("%s line %d", filepath.Base(path), e.GetToken().Position.Line), e.GetMessage()
	if m := keyTwice.FindStringSubmatch(text); m != nil {
		return fault.New(fault.Invalid, "%s: the key %.60s is in line %s already; merge the two into one", at, m[1], m[2])
	}
	if strings.Contains(text, "not allowed in this context") {
		text += "; check the indentation of this line and of the one before it"
	}
	return fault.New(fault.Invalid, "%s is not YAML: %s", at, text)
}

// flattener converts nested YAML to settings with dotted keys.
type flattener struct {
	name       string
	dir        string
	structured func(key string) bool // the value of a key is a list or a mapping
	list       []setting
	err        error
}

func (f *flattener) node(key string, n ast.Node) {
	switch n := n.(type) {
	case nil, *ast.CommentGroupNode:
	case *ast.MappingNode:
		if len(n.Values) == 0 && key != "" {
			f.add(key, n, "", "mapping")
		}
		for _, v := range n.Values {
			f.member(key, v)
		}
	case *ast.MappingValueNode:
		f.member(key, n)
	case *ast.SequenceNode:
		f.add(key, n, strings.Repeat("-", len(n.Values)), "list") // one character per item
	case *ast.NullNode:
		f.add(key, n, "", "")
	case *ast.AnchorNode:
		f.node(key, n.Value)
	case *ast.AliasNode, *ast.TagNode:
		f.unsupported(key, n)
	case ast.ScalarNode:
		f.add(key, n, fmt.Sprint(n.GetValue()), "")
	default:
		f.unsupported(key, n)
	}
}

func (f *flattener) member(key string, v *ast.MappingValueNode) {
	name := v.Key.GetToken().Value
	if key != "" {
		name = key + "." + name
	}
	if f.structured(name) && v.Value.Type() != ast.NullType {
		f.list = append(f.list, setting{key: name, node: v.Value, from: f.at(v.Key), dir: f.dir})
		return
	}
	before := len(f.list)
	f.node(name, v.Value)
	for i := before; i < len(f.list); i++ {
		if f.list[i].key == name { // report the line of the key
			f.list[i].from = f.at(v.Key)
		}
		if key == "" {
			f.list[i].top = f.at(v.Key)
		}
	}
}

func (f *flattener) add(key string, n ast.Node, text, kind string) {
	if key == "" {
		f.fail(n, "the file must contain keys such as profile")
		return
	}
	f.list = append(f.list, setting{key: key, text: text, kind: kind, from: f.at(n), dir: f.dir})
}

func (f *flattener) at(n ast.Node) string {
	return fmt.Sprintf("%s line %d", f.name, n.GetToken().Position.Line)
}

func (f *flattener) fail(n ast.Node, what string) {
	if f.err == nil {
		f.err = fault.New(fault.Invalid, "%s: %s", f.at(n), what)
	}
}

func (f *flattener) unsupported(key string, n ast.Node) {
	f.fail(n, fmt.Sprintf("%s is written with a YAML %s, which is not supported; write the value", key, strings.ToLower(n.Type().String())))
}

// readDotenv adds the settings of .env in the directory of the configuration, if it
// exists.
func (l *loader) readDotenv() {
	if l.dir == "" {
		return
	}
	path := filepath.Join(l.dir, ".env")
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.errs = append(l.errs, fault.Wrap(fault.Invalid, err, "%s cannot be read", path))
		return
	}
	l.files = append(l.files, path)
	l.parseDotenv(data, l.dir)
}

// parseDotenv adds the settings of a .env file: NAME=value lines with an optional
// "export" and optional quotes. It ignores variables of other programs.
func (l *loader) parseDotenv(data []byte, dir string) {
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "export "))
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		from := fmt.Sprintf(".env line %d", i+1)
		name, value = strings.TrimSpace(name), unquote(strings.TrimSpace(value))
		l.dotenv[name] = value
		if name == "SANDPIPER_CONFIG" {
			l.warn(from + ": SANDPIPER_CONFIG has no effect here; set it in the environment, or use --config")
			continue
		}
		l.variable(name, value, from, dir)
	}
}

// unquote removes the quotes or the trailing comment of a value.
func unquote(v string) string {
	if len(v) > 0 && (v[0] == '"' || v[0] == '\'') {
		if end := strings.IndexByte(v[1:], v[0]); end >= 0 {
			return v[1 : end+1]
		}
	}
	if i := strings.Index(v, " #"); i >= 0 {
		v = v[:i]
	}
	return strings.TrimSpace(v)
}
