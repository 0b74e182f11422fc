package restricted

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

func TestForbiddenProgramsAreRefused(t *testing.T) {
	p, h := open(t), newHost() // one for all: it lives on
	for _, row := range forbidden {
		o := p.restricted(t, "print('ran')\n"+row.code, h)
		if o.Status != sandbox.Refused || o.ErrorType != "RestrictedError" || !strings.Contains(o.Error, row.says) || len(h.output) > 0 {
			t.Errorf("%s: %s\nis %s %s %q, output %q; want …%s…", row.name, row.code, o.Status, o.ErrorType, o.Error, h.output, row.says)
		}
		h.output = nil
	}
	if o := p.restricted(t, "1 + 1", h); string(o.Result) != "2" {
		t.Errorf("after all refusals: %+v", o)
	}
}

func TestForbiddenOperationsRaiseAtRunTime(t *testing.T) { checkAll(t, refusedLate) }

func TestOrdinaryProgramsRunRestricted(t *testing.T) { checkAll(t, ordinary) }

func checkAll(t *testing.T, rows []program) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			h := newHost()
			o := open(t).run(t, sandbox.Program{Code: row.code, Vars: json.RawMessage(row.vars), Restriction: "restricted"}, h)
			compare(t, row, o, h.output)
		})
	}
}

// mixed are programs for one interpreter, restricted or free.
var mixed = []struct {
	free bool
	code string
	want want
}{
	{code: "import json as j\nx = 1\ndef f(s): exec(s)\nresult = x", want: value(`1`)},
	{code: "def g(): return result\ng()", want: value(`1`)},
	{code: "result = 2", want: value(`2`)},
	{code: "def h(): return result + 1\n[g(), h()]", want: value(`[2,3]`)},
	{code: "d = {}\nexec('', d)\nd['__builtins__'].clear()"},
	{code: "[len([1]), g()]", want: value(`[1,2]`)},
	{code: "result = 1", want: value(`1`)},
	{code: "import os", want: want{Status: sandbox.Refused, ErrorType: "RestrictedError", Error: "the module os"}},
	{code: "x + result", want: value(`2`)},
	{code: "f('import os')", want: late("the module os")},
	{code: "y = (", want: raised("SyntaxError", "never closed")},
	{code: "json.codecs", want: raised("AttributeError", "json.codecs is not available")},
	{free: true, code: "import os, sys\nos.getpid() > 0 and workspace in sys.path and json is sys.modules['json'] and json.codecs.__name__",
		want: value(`"codecs"`)},
	{free: true, code: "open('helper.py', 'w').write('import os') and None\n", want: want{}},
	{free: true, code: "f('import os')", want: late("the module os")},
	{free: true, code: "save_skill('s', 'import os\\ndef s(): return os.sep')\nfrom skills import s\ns()", want: value(`"/"`)},
	{free: true, code: "import helper, skills\n().__class__.__name__", want: value(`"tuple"`)},
	{code: "from skills import s", want: late("the module os")},
	{code: "import helper", want: want{Status: sandbox.Refused, ErrorType: "RestrictedError", Error: "the module helper"}},
	{code: "[json.dumps(x), hasattr(json, 'codecs')]", want: value(`["1",false]`)},
	{code: "json = 5", want: want{}},
	{free: true, code: "json", want: value(`5`)},
	{code: "json", want: value(`5`)},
	{code: "class C:\n    def __repr__(self):\n        try: exec('import os')\n        except RestrictedError: return 'refused'\nC()",
		want: value(`"refused"`)},
}

func TestRestrictedIsPerExecution(t *testing.T) {
	p, h := open(t), newHost()
	for _, row := range mixed {
		run := p.restricted
		if row.free {
			run = p.free
		}
		h.output = nil
		compare(t, program{code: row.code, want: row.want}, run(t, row.code, h), h.output)
	}
}

func TestRefusedCodeHasNoEffect(t *testing.T) {
	p := open(t)
	o := p.run(t, sandbox.Program{Code: "x.__class__", Vars: json.RawMessage(`{"x": 1}`), Restriction: "restricted"}, newHost())
	if o.Status != sandbox.Refused || o.Traceback != "" || !strings.HasPrefix(o.Error, "line 1: ") {
		t.Errorf("%+v", o)
	}
	if o := p.restricted(t, "x", newHost()); o.ErrorType != "NameError" {
		t.Errorf("a variable of refused code is there: %+v", o)
	}
}

func TestSandboxIsReusableAfterRefused(t *testing.T) {
	p := open(t)
	for _, row := range []struct {
		code   string
		status sandbox.Status
	}{{"x = 1", sandbox.Completed}, {"import os", sandbox.Refused}, {"x", sandbox.Completed}, {"exec('import os')", sandbox.Raised}} {
		if o := p.restricted(t, row.code, newHost()); o.Status != row.status {
			t.Fatalf("%s: %+v; want %s", row.code, o, row.status)
		}
	}
}

func TestAllFindingsAreReported(t *testing.T) {
	o := open(t).restricted(t, "x = 1\nx.__class__\nx.__dict__\nopen('f')\n__builtins__\nimport json", newHost())
	for _, part := range []string{"line 2: the attribute __class__", "; line 3: the attribute __dict__", "; line 4: open is not",
		"; and 1 more"} {
		if !strings.Contains(o.Error, part) {
			t.Errorf("%q is not in %q", part, o.Error)
		}
	}
	if strings.Contains(o.Error, "line 5") {
		t.Errorf("more than three findings: %q", o.Error)
	}
}

func TestChecksRunAfterTokenReplacement(t *testing.T) {
	const token = "[EMAIL_aaaaaaaaaaaaaaaa]"
	o := open(t).run(t, sandbox.Program{Code: "getattr(1, '" + token + "')", Tokens: map[string]string{token: "__class__"},
		Restriction: "restricted"}, newHost())
	if o.Status != sandbox.Refused || !strings.Contains(o.Error, "the attribute __class__") {
		t.Errorf("%+v", o)
	}
}

func TestRestrictedCodeHasPrivacyHelpers(t *testing.T) {
	o := open(t).run(t, sandbox.Program{Code: "detokenize_pii('a')", Privacy: true, Restriction: "restricted"}, newHost())
	if string(o.Result) != `"a"` {
		t.Errorf("%+v", o)
	}
}

func TestRestrictedCodeHasNoPackages(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "packages"), map[string]string{"good.py": "there = 1\n"})
	b := start(t, dir, func(c *process.Config) { c.Packages, c.Preload = filepath.Join(dir, "packages"), []string{"good"} })
	defer b.Close()
	p := openIn(t, b, dir, "a")
	for _, code := range []string{"import good", "from good import there", "exec('import good')"} {
		if o := p.restricted(t, code, newHost()); o.ErrorType != "RestrictedError" {
			t.Errorf("%s: %+v", code, o)
		}
	}
}

func seed(b byte) []byte { return []byte(strings.Repeat(string(b), 32)) }

func TestSeedInRestrictedCode(t *testing.T) {
	run := func() string {
		code := "import random, time, uuid\n[random.random(), str(uuid.uuid4()), time.time(), datetime.now(), date.today()]"
		o := open(t).run(t, sandbox.Program{Code: code, Seed: seed(1), Clock: []int64{1e18, 2e18, 3e18, 4e18}, Restriction: "restricted"},
			newHost())
		if o.Status != sandbox.Completed {
			t.Fatalf("%s: %s %s", o.Status, o.Error, o.Traceback)
		}
		return string(o.Result)
	}
	if one, two := run(), run(); one != two {
		t.Errorf("%s, then %s", one, two)
	}
}

func TestStepsOfRestrictedCode(t *testing.T) {
	p := open(t)
	h := newHost()
	o := p.run(t, sandbox.Program{Code: "@step\ndef f(x): return x + 1\n[f(1), step('a', f, 2)]", Seed: seed(1), Restriction: "restricted"},
		h)
	if string(o.Result) != "[2,3]" || h.steps != 3 {
		t.Errorf("%s %s %s, %d steps", o.Status, o.Result, o.Error, h.steps)
	}
	for _, code := range []string{"step.__self__", "step.__func__.__globals__", "f = step(lambda: 0)\nf.__wrapped__.__globals__"} {
		if o := p.restricted(t, code, newHost()); o.Status != sandbox.Refused {
			t.Errorf("%s: %s", code, o.Status)
		}
	}
}

// generated is a package servers, reduced to the needs of this test.
var generated = map[string]string{
	"__init__.py": "",
	"shop/__init__.py": "from importlib import import_module as _import\ndef __getattr__(name):\n    if name != 'order': raise " +
		"AttributeError(name)\n    globals()[name] = f = _import('.' + name, __name__).order\n    return f\ndef __dir__(): return " +
		"['order']\n",
	"shop/order.py": "import _sandpiper\ndef order(item, count=None):\n    return _sandpiper.call('shop', 'order', {'item': item}, " +
		"{'count': count})\n",
	"shop/aio.py": "import asyncio as _asyncio\nfrom .order import order as _order\nasync def order(*args, **kwargs): return await " +
		"_asyncio.to_thread(_order, *args, **kwargs)\n",
}

func TestRestrictedCodeCallsTools(t *testing.T) {
	p := open(t)
	write(t, filepath.Join(p.workspace, "servers"), generated)
	for code, want := range map[string]string{
		"from servers.shop import order\norder('a')['args']['item']":             `"a"`,
		"from servers import shop\nshop.order('b')['args']['item']":              `"b"`,
		"from servers.shop.aio import order\n(await order('c'))['args']['item']": `"c"`,
		"import servers.shop.aio as m\nm._asyncio":                               "",
		"import _sandpiper": "",
		"from servers.shop import order as _own\n_own('d')['args']['item']": `"d"`,
		"from servers.shop import _import":                                  "",
		"from servers.shop import _import as i\ni('os')":                    "",
		"from servers.shop.order import _sandpiper as s\n1":                 "",
		"from servers.shop.aio import _asyncio as a\n1":                     "",
		"from servers import __builtins__ as b\n1":                          "",
		"from servers.shop import __loader__ as b\n1":                       "",
		"from skills import __builtins__ as b\n1":                           "",
		"exec('from servers.shop import _import as i')\n1":                  "",
		"from servers.shop import order\norder.__globals__":                 "",
	} {
		o := p.run(t, sandbox.Program{Code: code, Restriction: "restricted", Preflight: true}, newHost())
		if string(o.Result) != want {
			t.Errorf("%s\n gave %s, %s", code, o.Result, o.Error)
		}
	}
}
