package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// MaxBytes limits the size of a file.
const MaxBytes = 1 << 20

// maxSteps limits the number of steps in a file.
const maxSteps = 1000

// maxDepth limits how deep lists and mappings are nested in a file.
const maxDepth = 64

// Parse reads a workflow in YAML or JSON. It reports the errors that it finds, at most 100; the
// workflow is nil if there are any. Its work and memory are proportional to the data.
func Parse(file string, data []byte) (*Workflow, []Finding) {
	w, found := parse(file, data)
	if len(found) > 0 {
		return nil, found
	}
	return w, nil
}

// parse returns a workflow also if there are findings, so that others can be found in the rest of it,
// unless it has no steps or too many.
func parse(file string, data []byte) (*Workflow, []Finding) {
	r := &reader{}
	r.file, r.source = file, data
	if len(data) > MaxBytes {
		r.add(Pos{1, 1}, "", "the file has %d bytes; at most %d are allowed", len(data), MaxBytes)
		return nil, r.found
	}
	w := document(r)
	if w != nil && (len(w.Steps) == 0 || r.steps > maxSteps) {
		w = nil
	}
	return w, arranged(r.found)
}

// document reads the only document of a file.
func document(r *reader) *Workflow {
	mark := unusedMark(r.source)
	in := &lineReader{rest: hideQuestionMarks(r.source, mark)}
	d := yaml.NewDecoder(in)
	var body *yaml.Node
	for {
		var doc yaml.Node
		err := decodeNode(d, &doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			syntax(&r.findings, err, in.line)
			return nil
		}
		switch n := doc.Content[0]; {
		case n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0: // an empty one
		case body != nil:
			r.add(posOf(n), "", "the file has more than one document; only one is allowed")
			return nil
		default:
			body = n
		}
	}
	if body == nil {
		r.add(Pos{1, 1}, "`sandpiper workflow schema` prints the keys", "the file has no workflow")
		return nil
	}
	if prepare(r, body, mark, 1) {
		return r.workflow(body)
	}
	return nil
}

// decodeNode converts panics of the parser to errors.
func decodeNode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("it cannot be read")
		}
	}()
	return d.Decode(n)
}

// prepare restores the text of a node, in which mark replaces question marks, and reports lists and
// mappings that are nested too deep.
func prepare(r *reader, n *yaml.Node, mark string, depth int) bool {
	if depth > maxDepth && len(n.Content) > 0 {
		tooDeep(&r.findings, posOf(n))
		return false
	}
	if mark != "" {
		n.Value = strings.ReplaceAll(n.Value, mark, "?")
	}
	for _, inner := range n.Content {
		if !prepare(r, inner, mark, depth+1) {
			return false
		}
	}
	return true
}

// unusedMark returns a character for private use that is neither in the source, nor escaped there; "" if
// there is none among the first.
func unusedMark(source []byte) string {
	lower := bytes.ToLower(source)
	for r := '\uf8ff'; r > '\uf800'; r-- {
		if !bytes.Contains(lower, []byte(string(r))) && !bytes.Contains(lower, fmt.Appendf(nil, "%x", r)) {
			return string(r)
		}
	}
	return ""
}

// hideQuestionMarks replaces the question marks that are part of a text by mark, unless it is "". The
// parser follows YAML 1.1, where [really?] is an error.
func hideQuestionMarks(source []byte, mark string) []byte {
	if mark == "" {
		return source
	}
	var b bytes.Buffer
	before := byte('\n') // the last character that is no space
	for i, c := range source {
		begins := bytes.IndexByte([]byte("\n,[]{}-:?"), before) >= 0
		ends := i+1 == len(source) || bytes.IndexByte([]byte(" \t\r\n"), source[i+1]) >= 0
		if c == '?' && !(begins && ends) {
			b.WriteString(mark)
		} else {
			b.WriteByte(c)
		}
		if c != ' ' && c != '\t' && c != '\r' {
			before = c
		}
	}
	return b.Bytes()
}

func tooDeep(f *findings, at Pos) {
	f.add(at, "write large values in the code of a step", "lists and mappings are nested more than %d deep", maxDepth)
}

// reader reads a file.
type reader struct {
	valueReader
	steps int
}

// lineReader reads one line at a time.
type lineReader struct {
	rest []byte
	line int // the last one of which something was read
}

func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.rest[:max(bytes.IndexByte(l.rest, '\n')+1, 1)])
	l.line += bytes.Count(l.rest[:n], []byte("\n"))
	l.rest = l.rest[n:]
	return n, nil
}

// syntaxError is the form of errors of the YAML parser. Its lines are wrong for errors of the first kind.
var syntaxError = lazyregexp.New(`^yaml: (?:line (\d+): )?(?:did not find expected ('.*|key|node content|<document start>)|(.*))$`)

// syntax reports an error of the YAML parser, which has read the given number of lines.
func syntax(f *findings, err error, lines int) {
	line, text := 1, "it cannot be read"
	if m := syntaxError().FindStringSubmatch(err.Error()); m != nil {
		if line, text = lines, m[2]+" must be specified"; m[2] == "" {
			n, _ := strconv.Atoi(m[1]) // "" is no number
			line, text = max(n, 1), m[3]
		}
	}
	if strings.HasPrefix(text, "exceeded max depth") {
		tooDeep(f, Pos{line, 1})
		return
	}
	f.add(Pos{line, 1}, "", "this is not YAML: %s", text)
}
