//go:build linux

package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

const promote = `
from sandpiper.features.skill import promote
try:
    code, parameters = promote.function(source, "made", globals().keys() - {"source"})
    result = {"code": code, "parameters": parameters}
except promote.Unsuitable as e:
    result = {"code": "unsuitable: " + str(e)}
`

func TestFunctionOfCode(t *testing.T) {
	w := open(t, worker.Limits{})
	for _, row := range []struct{ name, code, want, parameters string }{
		{"an expression", "1 + 1", "def made():\n    return 1 + 1\n", ""},
		{"a result", "result = 1\nprint(result)\n", "def made():\n    result = 1\n    print(result)\n    return result\n", ""},
		{"no value", "print(1)\nx = 2 # two", "def made():\n    print(1)\n    x = 2 # two\n", ""},
		{"the last of a line", "x = 1; x", "def made():\n    x = 1; return x\n", ""},
		{"over several lines", "[x\n for x in\n  (1, 2)]\n\n\n", "def made():\n    return [x\n     for x in\n      (1, 2)]\n", ""},
		{"comments and blank lines", "# why\n\nimport csv\n# end", "def made():\n    # why\n\n    import csv\n    # end\n", ""},
		{"unknown names", "from servers.crm import find\nrows = find(kind)\n[r for r in rows if r['age'] > days and kind and len(r)]",
			"def made(kind, days):\n    from servers.crm import find\n    rows = find(kind)\n    return [r for r in rows if r['age'] > " +
				"days and kind and len(r)]\n", "kind,days"},
		{"unknown names inside", "def f(x):\n    return x + y\nf(1)",
			"def made(y):\n    def f(x):\n        return x + y\n    return f(1)\n", "y"},
		{"names that are ready", "write_file('a', json.dumps(list_files()))\ndatetime.now()",
			"def made():\n    write_file('a', json.dumps(list_files()))\n    return datetime.now()\n", ""},
		{"text", "t = '''a\n  b\n'''\nf'''{t\n}\nx'''", "def made():\n    t = '''a\n  b\n'''\n    return f'''{t\n}\nx'''\n", ""},
		{"tabs", "if True:\n\tx = 1\nx", "def made():\n    if True:\n    \tx = 1\n    return x\n", ""},
		{"another width of letters", "'ü'; 'é'", "def made():\n    'ü'; return 'é'\n", ""},
		{"await", "import asyncio\nawait asyncio.sleep(0)\n3",
			"async def made():\n    import asyncio\n    await asyncio.sleep(0)\n    return 3\n", ""},
		{"await in a function", "async def f(): await g()\nf", "def made(g):\n    async def f(): await g()\n    return f\n", "g"},
		{"line ends of Windows", "x = 1\r\nx", "def made():\n    x = 1\n    return x\n", ""},
		{"a function of the name", "def made(a):\n    return a", "def made(a):\n    return a", ""},
		{"a function of the name that is called", "\"\"\"Finds.\"\"\"\nfrom servers.crm import find, put\nLIMIT = 3\nSEEN = " +
			"{}\nSEEN['a'] = 1\nSEEN.update(b=2)\nrows = find()\n\n@staticmethod\ndef made(a):\n    SEEN[a] = LIMIT\n    return " +
			"helper(a)\n\nhelper = len\nput(made(rows))\nfor r in rows:\n    put(r)\nresult = made(\n    'x')",
			"\"\"\"Finds.\"\"\"\nfrom servers.crm import find, put\nLIMIT = 3\nSEEN = {}\nSEEN['a'] = " +
				"1\nSEEN.update(b=2)\n\n@staticmethod\ndef made(a):\n    SEEN[a] = LIMIT\n    return helper(a)\n\nhelper = len\n", ""},
		{"a function that needs a call", "import crm\nrows = crm.find()\ncrm.put(1)\ndef made(): return rows\nmade()",
			"import crm\nrows = crm.find()\ndef made(): return rows\n", ""},
		{"a definition in a line with a call", "def made(): pass\nimport os; made()",
			"unsuitable: line 2 has a definition and a statement that only runs", ""},
		{"classes", "class A:\n    n = k\nA().n", "def made(k):\n    class A:\n        n = k\n    return A().n\n", "k"},
		{"a global statement", "def f():\n    global x\n    x = 1\nf()", "unsuitable: line 2 has a global statement", ""},
		{"import *", "from math import *\npi", "unsuitable: the import in line 1 is not possible in a function", ""},
		{"future", "from __future__ import annotations", "unsuitable: the import in line 1 is not possible in a function", ""},
	} {
		o := w.program(t, sandbox.Program{Code: promote, Vars: variables(t, map[string]any{"source": row.code})}, newHost())
		var got struct {
			Code       string
			Parameters []string
		}
		if err := json.Unmarshal(o.Result, &got); err != nil {
			t.Fatalf("%s: %v, %s", row.name, err, o.Error)
		}
		if diff := cmp.Diff(row.want, got.Code); diff != "" {
			t.Errorf("%s: %s", row.name, diff)
		}
		if p := strings.Join(got.Parameters, ","); p != row.parameters {
			t.Errorf("%s: parameters %s, want %s", row.name, p, row.parameters)
		}
	}
}
