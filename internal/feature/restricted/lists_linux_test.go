package restricted

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "update the lists of docs/restricted.md")

const restrictedPage = "../../../docs/restricted.md"

// readLists is Python that returns what allowed.py allows.
const readLists = `
import sys
from sandpiper.features.restricted import allowed as a
words = lambda names: " ".join(sorted(names))
[["builtins", words(a.BUILTINS - {"True", "False", "None"})], ["checked", words(a.CHECKED)], ["instead", a.INSTEAD],
 ["modules", [[n, words(names.split())] for n, names in a.MODULES.items()]], ["methods", words(a.METHODS)],
 ["settable", words(a.SETTABLE - a.METHODS)], ["readable", words(a.READABLE)], ["insides", words(a.INSIDES)],
 ["public", words(a.PUBLIC)], ["own", words(a.OWN)], ["matched", words(a.MATCHED)]]
`

func TestDocsListAllowedNames(t *testing.T) {
	o := open(t).free(t, readLists, newHost())
	var lists [][2]json.RawMessage
	if err := json.Unmarshal(o.Result, &lists); err != nil {
		t.Fatalf("%v: %+v", err, o)
	}
	data, err := os.ReadFile(restrictedPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, l := range lists {
		page = replaceList(t, page, strings.Trim(string(l[0]), `"`), render(t, l[1]))
	}
	if *update {
		if err := os.WriteFile(restrictedPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(page, string(data)); d != "" {
		t.Errorf("%s differs from allowed.py; run this test with -update\n%s", restrictedPage, d)
	}
	for _, gap := range gaps {
		if !strings.Contains(page, gap.name+".") || !strings.Contains(page, gap.code) {
			t.Errorf("the page does not have the gap %q with its code", gap.name)
		}
	}
}

// replaceList puts text between the marks of the list of that name.
func replaceList(t *testing.T, page, name, text string) string {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	head, rest, ok := strings.Cut(page, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("the page has no list %q", name)
	}
	return head + begin + text + end + tail
}

// render writes one list: words as code, pairs as a table.
func render(t *testing.T, list json.RawMessage) string {
	t.Helper()
	var words string
	if json.Unmarshal(list, &words) == nil {
		return "`" + strings.ReplaceAll(words, " ", "` `") + "`\n"
	}
	var b strings.Builder
	var instead map[string]string
	if json.Unmarshal(list, &instead) == nil {
		b.WriteString("| name | instead |\n|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(instead)) {
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, instead[name])
		}
		return b.String()
	}
	var modules [][2]string
	if err := json.Unmarshal(list, &modules); err != nil {
		t.Fatal(err)
	}
	b.WriteString("| module | names |\n|---|---|\n")
	for _, m := range modules {
		names := "all public names"
		if m[1] != "" {
			names = "`" + strings.ReplaceAll(m[1], " ", "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", m[0], names)
	}
	return b.String()
}

// reach is Python that walks the public attributes of all names available to
// restricted code, and reports those that give access to forbidden objects: modules, builtins that evaluate text or look
// names up, namespaces of modules, metaclasses.
const reach = `
import builtins, collections, os, sys, types
from sandpiper.features.restricted import allowed, check, replacements
f = replacements.Guard(workspace)
out = {id(vars(builtins)[n]): n for n in "eval exec open getattr setattr compile __import__ globals vars locals type".split()}
c_kinds = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodWrapperType, types.MethodDescriptorType)

def leads_out(v):
    return (isinstance(v, types.ModuleType) and not isinstance(v, replacements._View)
        or id(v) in out or isinstance(v, type) and issubclass(v, type)
        or isinstance(v, dict) and "__builtins__" in v or isinstance(v, (types.FrameType, types.CodeType))
        or isinstance(v, types.BuiltinFunctionType) and v.__module__ in ("posix", "_posixsubprocess", "_io", "_imp"))

def steps(v):
    if isinstance(v, (list, tuple, set, frozenset)): yield from enumerate(v)
    if isinstance(v, (dict, types.MappingProxyType)): yield from v.items()
    if isinstance(v, type): yield "mro()", list(v.__mro__)
    else: yield "type()", type(v)
    if not isinstance(v, (int, str, float, bytes, *c_kinds)):
        for n in {*dir(v), *dir(type(v))}:
            if not check.attribute(n) and not check.private(n):
                try: yield n, getattr(v, n)
                except Exception: pass

todo = collections.deque((n, v) for n, v in f._replacements.items() if n[0] != "_")
for m in allowed.MODULES:
    todo += [(m + "." + n, v) for n, v in vars(f.view(m)).items() if n[:2] != "__"]
seen, found, names = {}, [], len(todo)
while todo:
    path, v = todo.popleft()
    if id(v) in seen or path.count("/") > 3: continue
    seen[id(v)] = v
    if leads_out(v): found.append(path)
    else: todo += [(f"{path}/{n}", x) for n, x in steps(v)]
result = [names > 500, len(seen) > 5000, found]
`

func TestAllowedNamesDoNotReachInternals(t *testing.T) {
	row := program{code: reach, want: value(`[true,true,[]]`)}
	compare(t, row, open(t).free(t, row.code, newHost()), nil)
}

func TestReachabilityWalkFindsLeak(t *testing.T) {
	code := strings.Replace(reach, "f = replacements", "allowed.MODULES.update(pathlib='', warnings='', codecs='')\nf = replacements", 1)
	row := program{code: code, want: value(`[true,true,["pathlib.PurePath/parser","pathlib.PureWindowsPath/parser"]]`)}
	compare(t, row, open(t).free(t, row.code, newHost()), nil)
}
