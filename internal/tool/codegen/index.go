package codegen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// indexName is the file of a server's package from which a worker makes its functions without
// compiling their modules. It has, in this order: a header with the sizes of the next two parts and the number of
// groups; what describes the package, as JSON; the names of the tools; a table of the places where groups of records start
// and the last ends; and the records, a line of JSON each. A tool is in the group that is the CRC-32 of its name,
// modulo their number, so that a worker finds it with three reads.
const (
	indexName   = ".tools"
	indexHeader = "sandpiper tools 1 %08x %08x %08x\n"
)

// hasIndex reports whether the server's package has an index: only one whose functions are all generated.
func (s Server) hasIndex() bool { return len(s.Files) == 0 && len(s.Tools) > 0 }

// index returns the index of a server from the records of its tools by name.
func index(s Server, defs []tool.Definition, names map[string]string, records map[string][]byte) []byte {
	about, _ := json.Marshal(map[string]any{"server": s.Name, "doc": compiledDoc(serverDoc(s, defs, names)), "parts": partNames(s)})
	ids := make([]string, 0, len(records))
	groups := make([][]string, len(records))
	for id := range records {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		i := crc32.ChecksumIEEE([]byte(id)) % uint32(len(groups))
		groups[i] = append(groups[i], id)
	}
	list := strings.Join(ids, "\n") + "\n"
	var b, lines bytes.Buffer
	fmt.Fprintf(&b, indexHeader, len(about), len(list), len(groups))
	b.Write(about)
	b.WriteString(list)
	first := b.Len() + 8*(len(groups)+1)
	for _, group := range groups {
		fmt.Fprintf(&b, "%08x", first+lines.Len())
		for _, id := range group {
			lines.Write(records[id])
			lines.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "%08x", first+lines.Len())
	b.Write(lines.Bytes())
	return b.Bytes()
}

// records returns the records of an index by name. It returns none if data is not an index.
func records(data []byte) map[string][]byte {
	var about, names, groups int
	if n, err := fmt.Fscanf(bytes.NewReader(data), indexHeader, &about, &names, &groups); err != nil || n != 3 {
		return nil
	}
	first := len(fmt.Sprintf(indexHeader, 0, 0, 0)) + about + names + 8*(groups+1)
	if first > len(data) {
		return nil
	}
	all := map[string][]byte{}
	for line := range bytes.Lines(data[first:]) {
		var name string
		line = bytes.TrimSuffix(line, []byte("\n"))
		d := json.NewDecoder(bytes.NewReader(line))
		if _, err := d.Token(); err != nil || d.Decode(&name) != nil {
			return nil
		}
		all[name] = line
	}
	return all
}

// record returns what a worker needs of the function whose module has this source: its name, tool, docstring, line,
// parameters, the parameter for additional arguments, and whether it returns the answer.
func (f *function) record(source []byte) []byte {
	params := []any{}
	for _, p := range f.params {
		params = append(params, p.record())
	}
	more := ""
	if !f.more.empty() {
		more = f.moreName()
	}
	line := 2 + bytes.Count(source[:bytes.Index(source, []byte("\ndef "))], []byte("\n"))
	data, _ := json.Marshal([]any{f.name, f.def.Tool, compiledDoc(f.doc()), line, params, more, f.result.expr(f.names) != "None"})
	return data
}

// Kinds of parameters in a record.
const (
	kindRequired = iota
	kindSent     // None is a value
	kindOmitted  // None is not sent
)

// record returns the Python name, the name in the schema, the kind, and the default if it is neither
// None nor absent.
func (p param) record() []any {
	switch {
	case p.required:
		return []any{p.id, p.wire, kindRequired}
	case p.value == "" && p.absent:
		return []any{p.id, p.wire, kindSent}
	case p.value == "":
		return []any{p.id, p.wire, kindOmitted}
	}
	kind := kindOmitted
	if p.absent {
		kind = kindSent
	}
	declared, _ := p.schema.find("default")
	if _, number := declared.(json.Number); number {
		declared = json.RawMessage(p.value) // as a module has it: an integer, or with a point or an exponent
	}
	return []any{p.id, p.wire, kind, declared}
}

// compiledDoc returns the docstring of docstring(text, …) as CPython compiles it.
func compiledDoc(text string) string {
	if strings.Contains(text, "\n") {
		return text + "\n"
	}
	return text
}
