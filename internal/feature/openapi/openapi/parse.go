package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// file is one file of a document.
type file struct {
	name  string // relative to the directory of the document, with slashes
	title string // name in messages
	data  []byte
	root  any
	err   error // why it is unusable; nil if it is usable

	lineLookups int // number of line lookups
}

// parse parses JSON or YAML.
func (f *file) parse() (err error) {
	f.data = bytes.TrimPrefix(f.data, []byte("\xef\xbb\xbf"))
	text := bytes.TrimSpace(f.data)
	switch {
	case len(text) == 0:
		return fault.New(fault.Invalid, "%s is empty", f.title)
	case text[0] == '{' || text[0] == '[':
		return f.json()
	}
	return f.yaml()
}

func (f *file) json() error {
	dec := json.NewDecoder(bytes.NewReader(f.data))
	dec.UseNumber()
	err := dec.Decode(&f.root)
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		return fault.New(fault.Invalid, "%s line %d is not valid JSON: something follows the end of the document", f.title,
			f.lineAt(dec.InputOffset()))
	}
	at := int64(len(f.data))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = syntax.Offset
	}
	return fault.New(fault.Invalid, "%s line %d is not valid JSON: %s", f.title, f.lineAt(at),
		sanitize.Line(strings.TrimPrefix(err.Error(), "json: "), 200))
}

func (f *file) lineAt(offset int64) int {
	return 1 + bytes.Count(f.data[:min(max(0, offset), int64(len(f.data)))], []byte("\n"))
}

func (f *file) yaml() error {
	var doc yaml.Node
	if err := unmarshalYAML(f.data, &doc); err != nil {
		return fault.New(fault.Invalid, "%s is not valid YAML: %s", f.title, sanitize.Line(strings.TrimPrefix(err.Error(), "yaml: "), 200))
	}
	if len(doc.Content) == 0 {
		return fault.New(fault.Invalid, "%s is empty", f.title)
	}
	p := yamlConverter{remaining: min(maxNodes, 2*len(f.data)+10_000)}
	f.root = p.value(doc.Content[0], 0)
	if p.problem != "" {
		return fault.New(fault.Invalid, "%s line %d: %s", f.title, p.line, p.problem)
	}
	return nil
}

// unmarshalYAML converts panics of the parser to errors.
func unmarshalYAML(data []byte, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("it cannot be read")
		}
	}()
	return yaml.Unmarshal(data, doc)
}

// Bounds of a YAML file, because aliases can expand a short file to a huge one. The values are at
// most in proportion to its bytes.
const (
	maxNodes     = 4 << 20
	maxYAMLDepth = 200
)

// yamlConverter converts YAML nodes to the types of encoding/json.
type yamlConverter struct {
	remaining int
	line      int
	problem   string
}

func (p *yamlConverter) fail(n *yaml.Node, what string) any {
	if p.problem == "" {
		p.line, p.problem = n.Line, what
	}
	return nil
}

func (p *yamlConverter) value(n *yaml.Node, depth int) any {
	p.remaining--
	switch {
	case p.problem != "":
		return nil
	case p.remaining < 0:
		return p.fail(n, "its aliases expand to too many values")
	case depth > maxYAMLDepth:
		return p.fail(n, "it is nested too deeply, or an alias contains itself")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return p.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = p.value(item, depth+1)
		}
		return list
	case yaml.MappingNode:
		return p.mapping(n, depth)
	}
	return scalar(n)
}

func (p *yamlConverter) mapping(n *yaml.Node, depth int) any {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return p.fail(key, "a key must be a string")
		}
		if key.Tag == "!!merge" {
			p.merge(m, value, depth)
			continue
		}
		m[key.Value] = p.value(value, depth+1)
	}
	return m
}

// merge adds the keys of merged mappings. The mapping's own keys take precedence in any
// order.
func (p *yamlConverter) merge(m map[string]any, from *yaml.Node, depth int) {
	all := []any{p.value(from, depth+1)}
	if list, ok := all[0].([]any); ok {
		all = list
	}
	for _, one := range all {
		other, _ := one.(map[string]any)
		for k, v := range other {
			if _, own := m[k]; !own {
				m[k] = v
			}
		}
	}
}

// scalar converts a scalar; a date stays a string.
func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var yes bool
		if n.Decode(&yes) == nil {
			return yes
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return json.Number(strconv.FormatInt(i, 10))
		}
	case "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
		var x float64
		if n.Decode(&x) == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			return json.Number(strconv.FormatFloat(x, 'g', -1, 64))
		}
	}
	return n.Value
}

// maxLineLookups bounds the line lookups in one file, since each scans the file.
const maxLineLookups = 20

// line returns the line of the value at a pointer; 0 if unknown.
func (f *file) line(pointer string) int {
	if f.lineLookups++; f.lineLookups > maxLineLookups {
		return 0
	}
	if text := bytes.TrimSpace(f.data); len(text) > 0 && text[0] == '{' {
		return f.jsonLine(pointerSteps(pointer))
	}
	var doc yaml.Node
	if unmarshalYAML(f.data, &doc) != nil || len(doc.Content) == 0 {
		return 0
	}
	n, line := doc.Content[0], 1
	for _, step := range pointerSteps(pointer) {
		key, value := yamlMember(n, step)
		if value == nil {
			break
		}
		n, line = value, key.Line
	}
	return line
}

func yamlMember(n *yaml.Node, step string) (key, value *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if i, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && i >= 0 && i < len(n.Content) {
		return n.Content[i], n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// jsonLine returns the line of the value at the longest existing prefix of path.
func (f *file) jsonLine(path []string) int {
	dec := json.NewDecoder(bytes.NewReader(f.data))
	dec.UseNumber()
	line := 1
	for _, step := range path {
		open, err := dec.Token()
		if err != nil || !enterMember(dec, open, step) {
			break
		}
		line = f.lineAt(dec.InputOffset())
	}
	return line
}

// enterMember advances the decoder to a member or item.
func enterMember(dec *json.Decoder, open json.Token, step string) bool {
	for i := 0; dec.More(); i++ {
		switch open {
		case json.Delim('{'):
			key, err := dec.Token()
			if err != nil || key == step {
				return err == nil
			}
		case json.Delim('['):
			if strconv.Itoa(i) == step {
				return true
			}
		default:
			return false
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

func pointerSteps(pointer string) []string {
	if pointer == "" {
		return nil
	}
	path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, step := range path {
		path[i] = unescape(step)
	}
	return path
}
