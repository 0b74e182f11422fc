package codegen

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen/python"
)

// Limits of the docstrings of packages.
const (
	maxListed     = 300  // tools or servers in a docstring
	maxServerText = 1000 // characters of a server's description
	maxSummary    = 100  // characters of a list entry's description
)

// rootModule returns servers/__init__.py.
func rootModule(servers []Server) []byte {
	lines := []string{"The tools of all connected servers. Each tool is a function:", "",
		"    from servers.SERVER import TOOL", "", "help(TOOL) describes its parameters. The servers:", ""}
	if len(servers) == 0 {
		lines = append(lines, "    none")
	}
	for _, s := range servers[:min(len(servers), maxListed)] {
		summary := firstSentence(s.Description, maxSummary)
		if summary == "" {
			summary = oneLine(s.Title, maxSummary)
		}
		lines = append(lines, listed(s.Module, summary))
	}
	if more := len(servers) - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("    and %d more: dir(servers) lists all of them", more))
	}
	return []byte(docstring(strings.Join(lines, "\n"), "") + "\n" + python.Servers + handwrittenSet(servers))
}

// handwrittenSet lists the handwritten modules, whose lines a traceback shows.
func handwrittenSet(servers []Server) string {
	var b strings.Builder
	for _, s := range servers {
		for _, f := range s.visibleFiles() {
			b.WriteString("\n    " + literal(f.Path) + ",")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n\n_handwritten = frozenset((" + b.String() + "\n))\n"
}

func listed(name, summary string) string {
	if summary == "" {
		return "    " + name
	}
	return "    " + name + ": " + summary
}

// serverModule returns the __init__.py of one server. Its last line is the stamp
// of the definitions that it was generated from.
func serverModule(s Server, defs []tool.Definition, names map[string]string) []byte {
	var b strings.Builder
	b.WriteString(docstring(serverDoc(s, defs, names), ""))
	b.WriteString("\n\nimport sys as _sys\n\nfrom servers import _Package\n\n\nclass _This(_Package):\n    _tools = frozenset((")
	ids := s.handwrittenNames()
	for _, id := range names {
		ids = append(ids, id)
	}
	files := s.elsewhere()
	ids = slices.AppendSeq(ids, maps.Keys(files))
	slices.Sort(ids)
	for _, id := range ids {
		b.WriteString("\n        " + literal(id) + ",")
	}
	b.WriteString("\n    ))\n    _parts = frozenset((" + parts(s) + "))\n")
	if len(files) > 0 {
		b.WriteString("    _files = " + dict(files) + "\n")
	}
	b.WriteString("\n\n_sys.modules[__name__].__class__ = _This\n")
	b.WriteString(stamp(s) + "\n")
	return []byte(b.String())
}

func parts(s Server) string {
	var list []string
	for _, name := range partNames(s) {
		list = append(list, literal(name)+",")
	}
	return strings.Join(list, " ")
}

// partNames returns the modules of a server's package that are not of a tool.
func partNames(s Server) (names []string) {
	if !s.isHandwritten() {
		names = append(names, "aio")
	}
	if s.Resources {
		names = append(names, "resources")
	}
	if s.Prompts {
		names = append(names, "prompts")
	}
	return names
}

func serverDoc(s Server, defs []tool.Definition, names map[string]string) string {
	title := oneLine(s.Title, maxSummary)
	if title == "" {
		title = "The server " + literal(oneLine(s.Name, maxSummary))
	}
	lines := []string{title}
	if about := paragraphs(s.Description, maxServerText); about != "" {
		lines = append(lines, "", about)
	}
	lines = append(lines, "", "from servers."+s.Module+" import TOOL, where TOOL is one of:", "")
	handwritten := s.Handwritten()
	if len(defs)+len(handwritten) == 0 {
		lines = append(lines, "    none")
	}
	for _, h := range handwritten[:min(len(handwritten), maxListed)] {
		lines = append(lines, listed(h.Name, cmp.Or(firstSentence(h.About, maxSummary), "handwritten")))
	}
	defs = slices.SortedFunc(slices.Values(defs), func(a, b tool.Definition) int { return cmp.Compare(names[a.Tool], names[b.Tool]) })
	for _, d := range defs[:min(len(defs), maxListed)] {
		summary := firstSentence(d.Description, maxSummary)
		if summary == "" {
			summary = oneLine(d.Title, maxSummary)
		}
		lines = append(lines, listed(names[d.Tool], summary))
	}
	if more := len(defs) - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("    and %d more: dir() of the package lists all, search_tools finds them", more))
	}
	return strings.Join(lines, "\n")
}

// aioModule returns aio.py, which has a coroutine function for each tool.
func aioModule(s Server) []byte {
	doc := "The tools of servers." + s.Module + " as coroutine functions: from servers." + s.Module + ".aio import TOOL"
	return []byte(docstring(doc, "") + "\n\nimport sys as _sys\n\nfrom servers import _AsyncModule\n\n_sys.modules[__name__].__class__ = " +
		"_AsyncModule\n")
}

// partModule returns resources.py or prompts.py.
func partModule(s Server, part, source string) []byte {
	doc := "The " + part + " of servers." + s.Module + "."
	return []byte(docstring(doc, "") + "\n" + source + "\n\n_SERVER = " + literal(s.Name) + "\n")
}

const stampPrefix = "# made from "

// stamp returns a comment with a hash of everything that the files are generated from.
func stamp(s Server) string {
	h := sha256.New()
	features := fmt.Sprint(s.Resources, s.Prompts)
	for _, part := range []string{s.Name, s.Module, s.Title, s.Description, features} {
		add(h, part)
	}
	for _, d := range distinct(s.Tools) {
		for _, part := range []string{d.Tool, d.Title, d.Description, string(d.Input), string(d.Output)} {
			add(h, part)
		}
	}
	for _, f := range s.Files {
		add(h, f.Path)
		add(h, string(f.Data))
	}
	return stampPrefix + hex.EncodeToString(h.Sum(nil)[:16])
}

// add hashes a text with its length, so that adjacent texts cannot be confused.
func add(h hash.Hash, part string) {
	_, _ = io.WriteString(h, strconv.Itoa(len(part))+" ")
	_, _ = io.WriteString(h, part)
}
