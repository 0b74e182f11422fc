package codegen

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

//go:embed python/servers.py
var rootSource string

//go:embed python/resources.py
var resourcesSource string

//go:embed python/prompts.py
var promptsSource string

// Bounds on the docstrings of packages.
const (
	mostListed   = 300  // tools or servers in a docstring
	longestAbout = 1000 // characters on a server
	longestGist  = 100  // characters on one in a list
)

// rootModule is servers/__init__.py.
func rootModule(servers []Server) []byte {
	lines := []string{"The tools of all servers that are connected. A tool is a function:", "",
		"    from servers.SERVER import TOOL", "", "help(TOOL) tells what it takes. The servers:", ""}
	if len(servers) == 0 {
		lines = append(lines, "    none")
	}
	for _, s := range servers[:min(len(servers), mostListed)] {
		gist := firstSentence(s.Description, longestGist)
		if gist == "" {
			gist = oneLine(s.Title, longestGist)
		}
		lines = append(lines, listed(s.Module, gist))
	}
	if more := len(servers) - mostListed; more > 0 {
		lines = append(lines, fmt.Sprintf("    and %d more: dir(servers) lists all", more))
	}
	return []byte(docstring(strings.Join(lines, "\n"), "") + "\n" + rootSource + byHandNames(servers))
}

// byHandNames tells whoever shows tracebacks which modules are somebody's own.
func byHandNames(servers []Server) string {
	var b strings.Builder
	for _, s := range servers {
		for _, f := range s.beside() {
			b.WriteString("\n    " + literal(f.Path) + ",")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n\n_by_hand = frozenset((" + b.String() + "\n))\n"
}

func listed(name, gist string) string {
	if gist == "" {
		return "    " + name
	}
	return "    " + name + ": " + gist
}

// serverModule is the package of one server. Its last line tells the
// definitions that it was made from.
func serverModule(s Server, defs []tool.Definition, names map[string]string) []byte {
	var b strings.Builder
	b.WriteString(docstring(serverDoc(s, defs, names), ""))
	b.WriteString("\n\nimport sys as _sys\n\nfrom servers import _Package\n\n\nclass _This(_Package):\n    _tools = frozenset((")
	ids := s.written()
	for _, id := range names {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		b.WriteString("\n        " + literal(id) + ",")
	}
	b.WriteString("\n    ))\n    _parts = frozenset((" + parts(s) + "))\n\n\n_sys.modules[__name__].__class__ = _This\n")
	b.WriteString(stamp(s) + "\n")
	return []byte(b.String())
}

func parts(s Server) string {
	var list []string
	if !s.isByHand() {
		list = append(list, `"aio",`)
	}
	if s.Resources {
		list = append(list, `"resources",`)
	}
	if s.Prompts {
		list = append(list, `"prompts",`)
	}
	return strings.Join(list, " ")
}

func serverDoc(s Server, defs []tool.Definition, names map[string]string) string {
	title := oneLine(s.Title, longestGist)
	if title == "" {
		title = "The server " + literal(oneLine(s.Name, longestGist))
	}
	lines := []string{title}
	if about := paragraphs(s.Description, longestAbout); about != "" {
		lines = append(lines, "", about)
	}
	lines = append(lines, "", "from servers."+s.Module+" import TOOL, for one of:", "")
	written := s.written()
	if len(defs)+len(written) == 0 {
		lines = append(lines, "    none")
	}
	for _, name := range written[:min(len(written), mostListed)] {
		lines = append(lines, listed(name, "written by hand"))
	}
	defs = slices.SortedFunc(slices.Values(defs), func(a, b tool.Definition) int { return cmp.Compare(names[a.Tool], names[b.Tool]) })
	for _, d := range defs[:min(len(defs), mostListed)] {
		gist := firstSentence(d.Description, longestGist)
		if gist == "" {
			gist = oneLine(d.Title, longestGist)
		}
		lines = append(lines, listed(names[d.Tool], gist))
	}
	if more := len(defs) - mostListed; more > 0 {
		lines = append(lines, fmt.Sprintf("    and %d more: dir() of the package lists all, search_tools finds them", more))
	}
	return strings.Join(lines, "\n")
}

// aioModule has a twin of each function, to be awaited.
func aioModule(s Server) []byte {
	doc := "The tools of servers." + s.Module + " as functions to be awaited: from servers." + s.Module + ".aio import TOOL"
	return []byte(docstring(doc, "") + "\n\nimport sys as _sys\n\nfrom servers import _Awaitables\n\n_sys.modules[__name__].__class__ = _Awaitables\n")
}

// partModule is resources.py or prompts.py.
func partModule(s Server, part, source string) []byte {
	doc := "The " + part + " of servers." + s.Module + "."
	return []byte(docstring(doc, "") + "\n" + source + "\n\n_SERVER = " + literal(s.Name) + "\n")
}

const madeFrom = "# made from "

// stamp is a comment that differs for servers with different files.
func stamp(s Server) string {
	h := sha256.New()
	said := fmt.Sprint(s.Resources, s.Prompts)
	for _, part := range []string{s.Name, s.Module, s.Title, s.Description, said} {
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
	return madeFrom + hex.EncodeToString(h.Sum(nil)[:16])
}

// add hashes a text so that it cannot be taken for two.
func add(h hash.Hash, part string) {
	_, _ = io.WriteString(h, strconv.Itoa(len(part))+" ")
	_, _ = io.WriteString(h, part)
}
