//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// modules are a package of servers as the generator writes it, cut to what these
// tests need.
var modules = map[string]string{
	"__init__.py":            "",
	"shop/__init__.py":       "from importlib import import_module as _import\ndef __getattr__(name):\n    if name != 'order': raise AttributeError(name)\n    globals()[name] = f = _import('.' + name, __name__).order\n    return f\ndef __dir__(): return ['order']\n",
	"shop/order.py":          "import _sandpiper\ndef order(item, count=None):\n    return _sandpiper.call('shop', 'order', {'item': item}, {'count': count})\n",
	"shop/aio.py":            "import asyncio as _asyncio\nfrom .order import order as _order\nasync def order(*args, **kwargs): return await _asyncio.to_thread(_order, *args, **kwargs)\n",
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
			return nil, &tool.Failure{Ref: tool.Ref{Server: "shop", Tool: "order"}, Message: "sold out", Data: json.RawMessage(`{"left":0}`)}
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
	o, err := w.Run(t.Context(), w.number, sandbox.Program{ID: "exec_test", Code: code, Checked: true}, h)
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

func TestWhatIsWrongWithToolsIsSaid(t *testing.T) {
	w, h := openShop(t)
	for code, want := range map[string][2]string{
		"from servers.shop import order\norder('nothing')": {"ToolError", "sold out"},
		"import servers.nobody":                            {"ModuleNotFoundError", "No module named 'servers.nobody'"},
		"call_tool('shop', 5)":                             {"TypeError", "tool must be text, got int"},
		"parallel(5)":                                      {"TypeError", "write lambda: f(…)"},
		"from servers.shop import order\nparallel(lambda: order('a'), lambda: order('nothing'), lambda: 1/0)": {"ToolError", "sold out"},
		"from servers.shop import order\norder({1, 2})":                                                       {"TypeError", "set"},
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
	if o := bare.checked(t, "from servers.shop import order", newHost2(h)); o.ErrorType != "ModuleNotFoundError" || contains(o.Error, []string{"no MCP server is connected"}) != nil {
		t.Errorf("without servers: %+v", o)
	}
}

// newHost2 is a host that finds nothing wrong.
func newHost2(s *shop) *shop { return &shop{host: s.host} }

func TestModulesAreReadAgainInEachExecution(t *testing.T) {
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

func TestTheCheckSeesHowToolsAreUsed(t *testing.T) {
	call := func(of string) string {
		return `{"server":"shop","function":"order","by_name":false,` + of + `}`
	}
	order := `{"server":"shop","function":"order","line":1}`
	for code, want := range map[string]string{
		"1+1":                             "",
		"order(1)":                        "",
		"servers = 5\nservers.x.y(1)":     "",
		"call_tool(*names)":               "",
		"from .servers.shop import order": "",
		"from servers.shop import order\norder('a', count=-2)":                    `{"imports":[` + order + `],"calls":[` + call(`"line":2,"open":false,"args":[{"value":"a"}],"keywords":{"count":{"value":-2}}`) + `]}`,
		"from servers.shop import order as o\no(x, *y, count={'a': [1.5, None]})": `{"imports":[` + order + `],"calls":[` + call(`"line":2,"open":true,"args":[{}],"keywords":{"count":{"value":{"a":[1.5,null]}}}`) + `]}`,
		"from servers.shop import order\norder = f\norder(1)":                     `{"imports":[` + order + `],"calls":[]}`,
		"from servers.shop import order\ndef f(order): order(1)":                  `{"imports":[` + order + `],"calls":[]}`,
		"from servers import shop\nshop.order(**x)":                               `{"imports":[{"server":"shop","function":"","line":1}],"calls":[` + call(`"line":2,"open":true,"args":[],"keywords":{}`) + `]}`,
		"import servers.shop as s\ns.order()":                                     `{"imports":[{"server":"shop","function":"","line":1}],"calls":[` + call(`"line":2,"open":false,"args":[],"keywords":{}`) + `]}`,
		"import servers\nservers.shop.aio.order()":                                `{"imports":[],"calls":[` + call(`"line":2,"open":false,"args":[],"keywords":{}`) + `]}`,
		"from servers.shop.aio import order\nawait order()":                       `{"imports":[` + order + `],"calls":[` + call(`"line":2,"open":false,"args":[],"keywords":{}`) + `]}`,
		"from servers.shop import resources, prompts as p\nresources.list()":      `{"imports":[{"server":"shop","function":"","line":1},{"server":"shop","function":"","line":1}],"calls":[]}`,
		"call_tool('shop', 'order', item=(1,))":                                   `{"imports":[],"calls":[{"server":"shop","function":"order","by_name":true,"line":1,"open":false,"args":[],"keywords":{"item":{}}}]}`,
		"def f():\n  from servers.shop import order\n  return order('a')":         `{"imports":[{"server":"shop","function":"order","line":2}],"calls":[` + call(`"line":3,"open":false,"args":[{"value":"a"}],"keywords":{}`) + `]}`,
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

func TestNothingRunsOfCodeThatIsRefused(t *testing.T) {
	w, h := openShop(t)
	h.find = []string{"line 3: no", "line 4: never"}
	o := w.checked(t, "print('ran')\nfrom servers.shop import order\norder('a')\nx = 1", h)
	if o.Status != sandbox.Refused || o.ErrorType != "CheckError" || o.Error != "nothing was run: line 3: no\nline 4: never" || len(h.output) > 0 || len(h.ordered) > 0 {
		t.Errorf("%+v, printed %q, ordered %q", o, h.output, h.ordered)
	}
	h.find = nil
	if o := w.checked(t, "'x' in globals()", h); string(o.Result) != "false" {
		t.Errorf("%+v", o)
	}
	if o := w.run(t.Context(), t, "from servers.shop import order\norder('a')['args']", "", h); string(o.Result) != `{"item":"a"}` || len(h.checked) != 1 {
		t.Errorf("code that is not to be checked: %+v, %q", o, h.checked)
	}
}

func TestRestrictedCodeMayUseServers(t *testing.T) {
	w, h := openShop(t)
	for code, want := range map[string]string{
		"from servers.shop import order\norder('a')['args']['item']":             `"a"`,
		"from servers import shop\nshop.order('b')['args']['item']":              `"b"`,
		"from servers.shop.aio import order\n(await order('c'))['args']['item']": `"c"`,
		"import servers.shop.aio as m\nm._asyncio":                               "",
		"import _sandpiper": "",
		"from servers.shop import order\norder.__globals__": "",
	} {
		w.number++
		o, err := w.Run(t.Context(), w.number, sandbox.Program{ID: "x", Code: code, Restricted: true, Checked: true}, h)
		if err != nil || string(o.Result) != want {
			t.Errorf("%s\n gave %s, %s, %v", code, o.Result, o.Error, err)
		}
	}
}
