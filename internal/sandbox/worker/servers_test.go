//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// modules is a generated package servers, reduced to the needs of these tests.
var modules = map[string]string{
	"__init__.py": "",
	"shop/__init__.py": "from importlib import import_module as _import\ndef __getattr__(name):\n    if name != 'order': raise " +
		"AttributeError(name)\n    globals()[name] = f = _import('.' + name, __name__).order\n    return f\ndef __dir__(): return " +
		"['order']\n",
	"shop/order.py": "import _sandpiper\ndef order(item, count=None):\n    return _sandpiper.call('shop', 'order', {'item': " +
		"item}, {'count': count})\n",
	"shop/aio.py": "import asyncio as _asyncio\nfrom .order import order as _order\nasync def order(*args, **kwargs): return " +
		"await _asyncio.to_thread(_order, *args, **kwargs)\n",
	"shop/resources.py":      "import _sandpiper\ndef read(uri): return _sandpiper.read_resource('shop', uri)\n",
	"changing/__init__.py":   "version = 1\n",
	"changing/not_a_tool.py": "",
}

// shop is a host with a server of its own.
type shop struct {
	*host
	answers map[string]string // by item
	find    []string          // what the check finds

	mu      sync.Mutex
	checked []string // arguments of check
	ordered []string // arguments of call_tool
}

func (s *shop) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case "check":
		s.checked = append(s.checked, string(args))
		return json.Marshal(map[string]any{"findings": append([]string{}, s.find...)})
	case "call_tool":
		s.ordered = append(s.ordered, string(args))
		var c struct{ Args struct{ Item string } }
		if err := json.Unmarshal(args, &c); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the arguments are wrong")
		}
		if c.Args.Item == "nothing" {
			return nil, &tool.Failure{Ref: tool.Ref{Server: "shop", Tool: "order"}, Message: "sold out",
				Data: json.RawMessage(`{"left":0}`)}
		}
		if c.Args.Item == "lost" {
			return nil, &tool.Failure{Ref: tool.Ref{Server: "shop", Tool: "order"}, Message: "answered 503", Unknown: true, Status: 503,
				Later: 1500 * time.Millisecond}
		}
		if a, ok := s.answers[c.Args.Item]; ok {
			return []byte(a), nil
		}
		return []byte(`{"value":` + string(args) + `}`), nil
	case "read_resource":
		return []byte(`{"parts":[{"kind":"text","text":"{\"a\":1}"}]}`), nil
	}
	return s.host.Call(ctx, method, args)
}

func openShop(t *testing.T) (*pyWorker, *shop) {
	t.Helper()
	w := open(t, worker.Limits{})
	for name, source := range modules {
		path := filepath.Join(w.dir, "servers", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w, &shop{host: newHost(), answers: map[string]string{
		"picture": `{"parts":[{"kind":"image","mime":"image/png","data":"iVBORw0KGgo="}]}`,
		"mixed":   `{"parts":[{"kind":"text","text":"see"},{"kind":"link","uri":"file:///x","name":"x"}]}`,
		"both":    `{"structured":{"a":1},"parts":[{"kind":"image","mime":"image/png","data":"iVBORw0KGgo="}]}`,
		"none":    `{"value":null}`,
	}}
}

func (w *pyWorker) checked(t *testing.T, code string, h sandbox.Host) sandbox.Outcome {
	t.Helper()
	w.number++
	o, err := w.Run(t.Context(), w.number, sandbox.Program{ID: "exec_test", Code: code, Preflight: true}, h)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestToolsOfServersAreFunctions(t *testing.T) {
	called := func(args string) string { return `{"server":"shop","tool":"order","args":` + args + `}` }
	for code, want := range map[string]string{
		"from servers.shop import order\norder('a')":                                                                            called(`{"item":"a"}`),
		"from servers import shop\nshop.order('a', count=2)":                                                                    called(`{"item":"a","count":2}`),
		"import servers.shop\nservers.shop.order(item='a', count=None)":                                                         called(`{"item":"a"}`),
		"from servers.shop.aio import order\nawait order('a')":                                                                  called(`{"item":"a"}`),
		"import asyncio\nfrom servers.shop.aio import order\nlen(await asyncio.gather(*(order(str(i)) for i in range(20))))":    "20",
		"call_tool('shop', 'order', item='a', server='s', tool='t')":                                                            called(`{"item":"a","server":"s","tool":"t"}`),
		"from servers import shop\ndir(shop)":                                                                                   `["order"]`,
		"from servers.shop import order\n[x['args']['item'] for x in parallel(*[lambda i=i: order(str(i)) for i in range(5)])]": `["0","1","2","3","4"]`,
		"parallel()": "[]",
		"from servers.shop import order\norder('none') is None":                                                                     "true",
		"from servers.shop import order\np = order('picture')\n[p.kind, p.mime_type, bytes(p)[:4] == b'\\x89PNG', len(p), repr(p)]": `["image","image/png",true,8,"<image: image/png, 8 bytes>"]`,
		"from servers.shop import order\na, b = order('mixed')\n[a, b.kind, b.uri, b.name, b.data]":                                 `["see","link","file:///x","x",null]`,
		"from servers.shop import order\nx = order('both')\n[x, x['a'], x.parts[0].kind]":                                           `[{"a":1},1,"image"]`,
		"from servers.shop import resources\nresources.read('x')":                                                                   `"{\"a\":1}"`,
		"from servers.shop import order\ntry: order('nothing')\nexcept ToolError as e: result = [e.server, e.tool, str(e), e.data]": `["shop","order","sold out",{"left":0}]`,
	} {
		w, h := openShop(t)
		if o := w.checked(t, code, h); string(o.Result) != want && !(o.Result == nil && want == "null") {
			t.Errorf("%s\n gave %s (%s)\n want %s", code, o.Result, o.Error+o.Traceback, want)
		}
	}
}

func TestPicturesOfServersAreShown(t *testing.T) {
	for code, want := range map[string]struct {
		result string
		images int
	}{
		"order('picture')": {`"[picture]"`, 1},
		"[order('picture'), {'chart': order('picture')}, 1]":         {`["[picture]",{"chart":"[picture]"},1]`, 2},
		"p = order('picture')\nshow(p)\n(p, p)":                      {`["[picture]","[picture]"]`, 1},
		"order('both')":                                              {`{"a":1}`, 1},
		"p = order('picture')\nlen(p)":                               {`8`, 0},
		"len([order('picture') for _ in range(9)])":                  {`9`, 0},
		"r = [order('picture') for _ in range(9)]\nr":                {`["[picture]","[picture]","[picture]","[picture]","[picture]","[picture]","[picture]","[picture]","<image: image/png, 8 bytes>"]`, 8},
		"class Fake:\n    pass\nFake.__module__ = 'servers'\n[Fake]": {``, 0},
	} {
		w, h := openShop(t)
		o := w.checked(t, "from servers.shop import order\n"+code, h)
		if want.result != "" && string(o.Result) != want.result || len(o.Images) != want.images {
			t.Errorf("%s\n gave %s with %d images (%s)\n want %s with %d", code, o.Result, len(o.Images), o.Error+o.Traceback, want.result,
				want.images)
		}
	}
}

func TestOutcomesOfToolErrors(t *testing.T) {
	const outcome = "def outcome(f):\n    try: f()\n    except Exception as e: return [type(e).__name__, getattr(e, 'outcome', None), " +
		"ToolError.may_have_effect(e)]\nfrom servers.shop import order\n"
	for code, want := range map[string]string{
		"try: order('lost')\nexcept ToolError as e: result = [e.outcome, e.retryable, e.status, e.retry_after]":    `["unknown",false,503,1.5]`,
		"try: order('nothing')\nexcept ToolError as e: result = [e.outcome, e.retryable, e.status, e.retry_after]": `["failed",false,null,null]`,
		"import pickle\ntry: order('lost')\nexcept ToolError as e: result = pickle.loads(pickle.dumps(e)).outcome": `"unknown"`,
		"outcome(lambda: order(object()))": `["ToolError","not_made",false]`,
		"outcome(lambda: parallel(lambda: 1 / 0, lambda: order('nothing'), lambda: order('lost')))":                        `["ToolError","unknown",true]`,
		"outcome(lambda: parallel(lambda: 1 / 0, lambda: order('nothing')))":                                               `["ZeroDivisionError",null,false]`,
		"def hides():\n    try: order('lost')\n    except ToolError: raise KeyError('no order') from None\noutcome(hides)": `["KeyError",null,true]`,
		"def caught(): \n    with ToolError.watch() as found:\n        try: order('lost')\n        except ToolError: pass\n        try: " +
			"order('nothing')\n        except ToolError: pass\n    return [type(e).__name__ for e in found]\n[caught(), caught()]": `[["ToolError"],["ToolError"]]`,
		"def quiet():\n    try: order('lost')\n    except ToolError: pass\nwith ToolError.watch() as outer:\n    with ToolError.watch() " +
			"as inner: parallel(quiet, lambda: None)\n    with ToolError.watch() as later: pass\n[len(outer), len(inner), len(later)]": `[1,1,0]`,
		"import asyncio\nfrom servers.shop import aio\nasync def group():\n    async with asyncio.TaskGroup() as g: " +
			"g.create_task(aio.order('lost'))\noutcome(lambda: asyncio.run(group()))": `["ExceptionGroup",null,true]`,
	} {
		w, h := openShop(t)
		if o := w.checked(t, outcome+code, h); string(o.Result) != want {
			t.Errorf("%s\n gave %s (%s)\n want %s", code, o.Result, o.Error+o.Traceback, want)
		}
	}
}

func TestToolErrors(t *testing.T) {
	w, h := openShop(t)
	for code, want := range map[string][2]string{
		"from servers.shop import order\norder('nothing')": {"ToolError", "sold out"},
		"import servers.nobody":                            {"ModuleNotFoundError", "No module named 'servers.nobody'"},
		"call_tool('shop', 5)":                             {"TypeError", "tool must be text, got int"},
		"parallel(5)":                                      {"TypeError", "write lambda: f(…)"},
		"from servers.shop import order\nparallel(lambda: order('a'), lambda: order('nothing'), lambda: 1/0)": {"ToolError", "sold out"},
		"from servers.shop import order\norder(object())": {"ToolError",
			"argument item cannot be sent: object is not JSON"},
		"call_tool('shop', 'order', item=1, x=[float('nan')])": {"ToolError",
			"argument x cannot be sent: Out of range float"},
		"call_tool('shop', 'order', item=b'x')": {"ToolError",
			"argument item cannot be sent: bytes is not JSON: send text"},
		"call_tool('shop', 'order', item={(1, 2): 3})": {"ToolError",
			"argument item cannot be sent: keys must be str"},
		"l = []\nl.append(l)\ncall_tool('shop', 'order', item=l)": {"ToolError",
			"argument item cannot be sent: Circular"},
		"call_tool('shop', 'order', item=10**5000)": {"ToolError",
			"argument item cannot be sent: Exceeds the limit"},
		"l = []\nfor _ in range(50000): l = [l]\ncall_tool('shop', 'order', item=l)": {"ToolError", "are nested too deeply"},
		"call_tool('shop', 'order', item='x' * (17 << 20))":                          {"ToolError", "bytes of JSON, at most"},
		"search_tools('x', max_results=float('nan'))":                                {"ValueError", "Out of range float"},
	} {
		o := w.checked(t, code, h)
		if o.ErrorType != want[0] || contains(o.Error, want[1:]) != nil {
			t.Errorf("%s\n gave %s: %s\n want %v", code, o.ErrorType, o.Error, want)
		}
		if err := contains(o.Traceback, []string{"!servers/shop", "!_sandpiper"}); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
	bare := open(t, worker.Limits{})
	if o := bare.checked(t, "from servers.shop import order", newHost2(h)); o.ErrorType != "ModuleNotFoundError" || contains(o.Error,
		[]string{"no MCP server is connected"}) != nil {
		t.Errorf("without servers: %+v", o)
	}
}

// newHost2 is a host that finds nothing wrong.
func newHost2(s *shop) *shop { return &shop{host: s.host} }

func TestServerModulesAreReloaded(t *testing.T) {
	w, h := openShop(t)
	if o := w.checked(t, "from servers import changing\nchanging.version", h); string(o.Result) != "1" {
		t.Fatalf("%+v", o)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "servers/changing/__init__.py"), []byte("version = 22"), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := w.checked(t, "from servers import changing as again\n[again.version, changing.version]", h); string(o.Result) != "[22,1]" {
		t.Errorf("%+v", o)
	}
}

func TestPreflightDescribesToolCalls(t *testing.T) {
	call := func(of string) string {
		return `{"server":"shop","function":"order","by_name":false,` + of + `}`
	}
	order := `{"server":"shop","function":"order","line":1,"ready":false}`
	for code, want := range map[string]string{
		"1+1":                             "",
		"order(1)":                        "",
		"servers = 5\nservers.x.y(1)":     "",
		"call_tool(*names)":               "",
		"from .servers.shop import order": "",
		"from servers.shop import order\norder('a', count=-2)": `{"imports":[` + order + `],"calls":[` +
			call(`"line":2,"open":false,"ready":false,"args":[{"value":"a"}],"keywords":{"count":{"value":-2}}`) + `]}`,
		"from servers.shop import order as o\no(x, *y, count={'a': [1.5, None]})": `{"imports":[` + order + `],"calls":[` +
			call(`"line":2,"open":true,"ready":false,"args":[{}],"keywords":{"count":{"value":{"a":[1.5,null]}}}`) + `]}`,
		"from servers.shop import order\norder = f\norder(1)":    `{"imports":[` + order + `],"calls":[]}`,
		"from servers.shop import order\ndef f(order): order(1)": `{"imports":[` + order + `],"calls":[]}`,
		"from servers import shop\nshop.order(**x)":              `{"imports":[{"server":"shop","function":"","line":1,"ready":false}],"calls":[` + call(`"line":2,"open":true,"ready":false,"args":[],"keywords":{}`) + `]}`,
		"import servers.shop as s\ns.order()":                    `{"imports":[{"server":"shop","function":"","line":1,"ready":false}],"calls":[` + call(`"line":2,"open":false,"ready":false,"args":[],"keywords":{}`) + `]}`,
		"import servers\nservers.shop.aio.order()": `{"imports":[],"calls":[` +
			call(`"line":2,"open":false,"ready":false,"args":[],"keywords":{}`) + `]}`,
		"from servers.shop.aio import order\nawait order()": `{"imports":[` + order + `],"calls":[` +
			call(`"line":2,"open":false,"ready":false,"args":[],"keywords":{}`) + `]}`,
		"from servers.shop import resources, prompts as p\nresources.list()": `{"imports":[{"server":"shop","function":"","line":1,"ready":false},{"server":"shop","function":"","line":1,"ready":false}],"calls":[]}`,
		"call_tool('shop', 'order', item=(1,))":                              `{"imports":[],"calls":[{"server":"shop","function":"order","by_name":true,"line":1,"open":false,"ready":false,"args":[],"keywords":{"item":{}}}]}`,
		"def f():\n  from servers.shop import order\n  return order('a')":    `{"imports":[{"server":"shop","function":"order","line":2,"ready":false}],"calls":[` + call(`"line":3,"open":false,"ready":false,"args":[{"value":"a"}],"keywords":{}`) + `]}`,
	} {
		w, h := openShop(t)
		h.find = []string{"stop"} // nothing of it runs
		o := w.checked(t, code, h)
		got := ""
		if len(h.checked) > 0 {
			got = h.checked[0]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s\n%s", code, d)
		}
		if refused := o.Status == sandbox.Refused; refused != (want != "") {
			t.Errorf("%s: %+v", code, o)
		}
	}
}

// The preflight check must report only unambiguous uses of tools.
func TestPreflightIgnoresAmbiguousCalls(t *testing.T) {
	const shop, nope = `{"server":"shop","function":"order",`, `{"server":"nope","function":"",`
	for code, want := range map[string][2]string{ // text that the request must and must not contain
		"try:\n  from servers import nope\nexcept ImportError: nope = None": {nope +
			`"line":2,"ready":true}`, `"ready":false`},
		"try:\n  from servers import nope\n  ok = 1\nexcept: ok = 0\nif ok: nope.x()": {`"function":"x","by_name":false,"line":5,"open":false,"ready":true`, `"ready":false`},
		"try:\n  import json5\nexcept ImportError:\n  from servers import nope": {`"ready":true`,
			`"ready":false`},
		"import contextlib\nwith contextlib.suppress(ImportError):\n  from servers import nope": {`"ready":true`,
			`"ready":false`},
		"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from servers.nope import x": {`"ready":true`,
			`"ready":false`},
		"import servers\nif 'nope' in dir(servers):\n  servers.nope.x()": {`"function":"x","by_name":false,"line":3,"open":false,"ready":true`, `"ready":false`},
		"def f():\n  if 'nope' not in dir(servers): return\n  from servers import nope": {`"ready":true`,
			`"ready":false`},
		"from servers import shop\nhasattr(shop, 'x') and shop.x()": {`"line":2,"open":false,"ready":true`, ""},
		"if __name__ == '__main__':\n  from servers import nope": {`"ready":false`,
			`"ready":true`},
		"try:\n  call_tool('nope', 'x')\nexcept ToolError: pass\nfrom servers import shop":                   {"shop", "nope"},
		"def f(): return call_tool('nope', 'x')\ntry: f()\nexcept ToolError: pass\nfrom servers import shop": {"shop", "nope"},
		"try:\n  call_tool('nope', 'x')\nexcept Exception: pass":                                             {"nope", ""},
		"from servers.shop import order\ntry: order(item=-1)\nexcept ToolError: pass": {`"keywords":{"item":{}}`,
			"-1"},
		"from servers.shop import order\ntry: order(odd=1)\nexcept TypeError: pass":                           {shop, "odd"},
		"from servers import shop\nshop.__dir__()":                                                            {`"calls":[]`, ""},
		"from servers import shop\nsetattr(shop, 'x', f)\nshop.x()":                                           {`"calls":[]`, ""},
		"from servers import shop\nvars(shop)['x'] = f\nshop.x()":                                             {`"calls":[]`, ""},
		"from servers.shop import order\nglobals()['order'] = f\norder()":                                     {`"calls":[]`, ""},
		"from unittest import mock\nfrom servers import shop\nwith mock.patch.object(shop, 'x', f): shop.x()": {`"calls":[]`, ""},
		"from servers.shop import order\nfrom operator import *\norder()":                                     {`"calls":[]`, ""},
		"from operator import *\nfrom servers.shop import order\norder()":                                     {`"function":"order","by_name":false,"line":3`, ""},
		"order()\nfrom servers.shop import order":                                                             {`"calls":[]`, ""},
		"def f():\n  from servers.shop import order\norder()":                                                 {`"calls":[]`, ""},
		"class A:\n  from servers.shop import order\n  def f(self): order()\norder()":                         {`"calls":[]`, ""},
		"class A:\n  from servers.shop import order\n  x = order()": {`"line":3,"open":false`,
			""},
		"from servers.shop import order\n@order(1)\ndef f(x=order(2)): order(3)":                 {`{"value":1}`, ""},
		"from servers.shop import order\nmatch x:\n  case {'a': 1, **order}: order()":            {`"calls":[]`, ""},
		"from servers.shop import order\ndef f[order](): order()":                                {`"calls":[]`, ""},
		"from servers.shop import order\norder(0x" + strings.Repeat("f", 6000) + ")":             {`"args":[{}]`, ""},
		"from servers.shop import order\ndel order\norder()":                                     {`"calls":[]`, ""},
		"from servers.shop import order\n(order := f)()\norder()":                                {`"calls":[]`, ""},
		"from servers.shop import order\n[order() for order in x], lambda order: order()":        {`"calls":[]`, ""},
		"from servers.shop import order\nf'{order(1)}', lambda: order(2), [order(3) for _ in x]": {`{"value":3}`, ""},
		"from servers.shop import order\nif x:\n  order(1)\nelse:\n  y = order(2) if z else 0\nwhile order(3): pass": {`{"value":2}`,
			`"ready":true`},
	} {
		w, h := openShop(t)
		h.find = []string{"stop"}
		w.checked(t, code, h)
		if got := strings.Join(h.checked, "\n"); !strings.Contains(got, want[0]) || want[1] != "" && strings.Contains(got, want[1]) {
			t.Errorf("%s\n gave %s\n want %q and not %q", code, got, want[0], want[1])
		}
	}
}

func TestPreflightIgnoresRedefinedCallTool(t *testing.T) {
	w, h := openShop(t)
	for _, code := range []string{"def call_tool(a, b): return 1", "call_tool('nope', 'x')",
		"from servers.nope import *\ncall_tool('nope', 'x')"} {
		w.checked(t, code, h)
	}
	if len(h.checked) != 1 || strings.Contains(h.checked[0], "by_name") {
		t.Errorf("checked %q", h.checked)
	}
}

// Any thread may read an undecodable answer: the error must reach only the thread that
// made the call.
func TestUndecodableAnswerFailsItsCall(t *testing.T) {
	w, h := openShop(t)
	h.answers["long"] = `{"value":{"n":` + strings.Repeat("9", 5000) + `,"e":1}}`
	for code, want := range map[string]string{
		"r = call_tool('shop', 'order', item='long')\n[r['n'], r['e']]":                                                        "[null,1]",
		"r = parallel(*[lambda i=i: call_tool('shop', 'order', item='long' if i % 3 else 'none') for i in range(60)])\nlen(r)": "60",
	} {
		if o := w.checked(t, code, h); string(o.Result) != want {
			t.Errorf("%s\n gave %s (%s)\n want %s", code, o.Result, o.Error+o.Traceback, want)
		}
	}
}

func TestArgumentsAreConvertedToJSON(t *testing.T) {
	w, h := openShop(t)
	for value, want := range map[string]string{
		"{2, 1}": "[1,2]", "range(2)": "[0,1]", "date(2026, 1, 2)": `"2026-01-02"`, "datetime(2026, 1, 2)": `"2026-01-02T00:00:00"`,
		"__import__('decimal').Decimal('1.5')": "1.5", "__import__('pathlib').Path('/a')": `"/a"`, "(1, {'a': None})": `[1,{"a":null}]`,
		"__import__('enum').Enum('E', 'A').A": "1", "__import__('dataclasses').make_dataclass('D', ['a'])(1)": `{"a":1}`,
	} {
		if o := w.checked(t, "call_tool('shop', 'order', item='', x="+value+")['args']['x']", h); string(o.Result) != want {
			t.Errorf("%s gave %s (%s), want %s", value, o.Result, o.Error, want)
		}
	}
}

func TestPreflightRefusesCode(t *testing.T) {
	w, h := openShop(t)
	h.find = []string{"line 3: no", "line 4: never"}
	o := w.checked(t, "print('ran')\nfrom servers.shop import order\norder('a')\nx = 1", h)
	if o.Status != sandbox.Refused || o.ErrorType != "CheckError" || o.Error != "nothing was run: line 3: no\nline 4: never" ||
		len(h.output) > 0 || len(h.ordered) > 0 {
		t.Errorf("%+v, printed %q, ordered %q", o, h.output, h.ordered)
	}
	h.find = nil
	if o := w.checked(t, "'x' in globals()", h); string(o.Result) != "false" {
		t.Errorf("%+v", o)
	}
	if o := w.run(t.Context(), t, "from servers.shop import order\norder('a')['args']", "", h); string(o.Result) != `{"item":"a"}` ||
		len(h.checked) != 1 {
		t.Errorf("code that is not to be checked: %+v, %q", o, h.checked)
	}
}

func TestLargeAnswerIsAFile(t *testing.T) {
	w, h := openShop(t)
	for name, content := range map[string]string{"big.json": `{"rows":[1,2,3]}`, "big.txt": "lörem"} {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		h.answers[name] = fmt.Sprintf(`{"file":{"path":%q,"bytes":%d,"json":%t,"preview":{"type":"object"}}}`, path, len(content),
			name == "big.json")
	}
	for code, want := range map[string]string{
		"x = order('big.json')\n[type(x).__name__, x.bytes, x.path.endswith('/big.json'), x.preview['type'], x.load()['rows']]": `["LargeAnswer",16,true,"object",[1,2,3]]`,
		"x = order('big.json')\nwith x.open() as f: a = f.read(5)\n[a, x['bytes'], isinstance(x, dict)]":                        `["{\"row",16,true]`,
		"x = order('big.txt')\nx.load()": `"lörem"`,
		"x = order('big.json')\nx['path'] = '/etc/passwd'\ntry: x.load()\nexcept PermissionError as e: result = str(e)": `"Access denied: path outside workspace: '/etc/passwd'"`,
		"try: order('big.json')['rows']\nexcept KeyError as e: result = '.load()' in str(e)":                            `true`,
	} {
		if o := w.checked(t, "from servers.shop import order\n"+code, h); string(o.Result) != want {
			t.Errorf("%s\n gave %s (%s)\n want %s", code, o.Result, o.Error+o.Traceback, want)
		}
	}
}
