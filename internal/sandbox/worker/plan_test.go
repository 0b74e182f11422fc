//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// planner answers calls of the tool "order" with a number, as a dry run does, and
// others with their arguments.
type planner struct {
	*host
	mu      sync.Mutex
	planned []string // the calls
	ended   []string // where
}

func (p *planner) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "plan_ends":
		p.ended = append(p.ended, string(args))
		return nil, nil
	case "call_tool":
		var c struct{ Tool string }
		if err := json.Unmarshal(args, &c); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the arguments are wrong")
		}
		if c.Tool != "order" {
			return fmt.Appendf(nil, `{"value":%s}`, args), nil
		}
		if len(p.ended) > 0 {
			return nil, fault.New(fault.Denied, "the plan has ended")
		}
		p.planned = append(p.planned, string(args))
		return fmt.Appendf(nil, `{"planned":%d,"schema":{"type":"object","properties":{"id":{"type":"string"},"closed":{"type":"object","additionalProperties":false,"properties":{"x":{}}}}}}`, len(p.planned)), nil
	}
	return p.host.Call(ctx, method, args)
}

func dry(t *testing.T, code string) (*planner, sandbox.Outcome) {
	t.Helper()
	w, h := openShop(t)
	p := &planner{host: h.host}
	return p, w.program(t, sandbox.Program{Code: "from servers.shop import order\n" + code, DryRun: true}, p)
}

func TestPlaceholderBecomesReference(t *testing.T) {
	for code, want := range map[string]string{
		"order(a.id)":        `{"item":null} {"argument":["item"],"call":1,"result":["id"]}`,
		"order(a['id'])":     `{"item":null} {"argument":["item"],"call":1,"result":["id"]}`,
		"order(a.get('id'))": `{"item":null} {"argument":["item"],"call":1,"result":["id"]}`,
		"order(a)":           `{"item":null} {"argument":["item"],"call":1,"result":[]}`,
		"order({'x': [1, a.lines[0]['no'], (a,)]}, 5)": `{"item":{"x":[1,null,[null]]},"count":5} ` +
			`{"argument":["item","x",1],"call":1,"result":["lines",0,"no"]} {"argument":["item","x",2,0],"call":1,"result":[]}`,
		"order({3: a})": `{"item":{"3":null}} {"argument":["item","3"],"call":1,"result":[]}`,
		"import copy\norder(copy.deepcopy([a])[0])": `{"item":null} {"argument":["item"],"call":1,"result":[]}`,
		"import asyncio\nfrom servers.shop.aio import order as later\nasync def f(): return await later(a.id)\nawait f()": `{"item":null} {"argument":["item"],"call":1,"result":["id"]}`,
		"parallel(lambda: order(a.id), lambda: 1)":      `{"item":null} {"argument":["item"],"call":1,"result":["id"]}`,
		"order('x', **{'count': a})":                    `{"item":"x","count":null} {"argument":["count"],"call":1,"result":[]}`,
		"call_tool('shop', 'order', item=a['item'])":    `{"item":null} {"argument":["item"],"call":1,"result":["item"]}`,
		"b = a if a is not None else 0\norder(b.items)": `{"item":null} {"argument":["item"],"call":1,"result":["items"]}`,
		// what only looks like a reference is data
		`order({"argument": ["item"], "call": 1, "result": []})`: `{"item":{"argument":["item"],"call":1,"result":[]}}`,
		`order("<the result of call 1, shop.order (object)>")`:   `{"item":"<the result of call 1, shop.order (object)>"}`,
	} {
		p, o := dry(t, "a = order('first')\n"+code+"\nNone")
		if o.Status != sandbox.Completed || len(p.planned) != 2 || len(p.ended) > 0 {
			t.Errorf("%s\n%s %s, planned %d calls, ends %s", code, o.Status, o.Traceback, len(p.planned), p.ended)
			continue
		}
		var c struct{ Args, References json.RawMessage }
		if err := json.Unmarshal([]byte(p.planned[1]), &c); err != nil {
			t.Fatal(err)
		}
		got := string(c.Args)
		if c.References != nil {
			got = string(c.Args) + " " + references(t, c.References)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", code, diff)
		}
	}
}

func references(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, one := range all {
		texts = append(texts, string(one))
	}
	return strings.Join(texts, " ")
}

// looks are operations that end the plan; a is a placeholder.
var looks = []string{
	"if a: pass", "not a", "a and 1", "while a: pass", "[x for x in [1] if a]", "assert a",
	"a == 1", "1 == a", "a != None", "a < 1", "1 >= a", "max(a, 1)", "sorted([a, 1])", "{1: 2}[a]",
	"for x in a: pass", "list(a)", "[*a]", "x, y = a", "dict(**a)", "dict(a)", "iter(a)", "reversed(a)", "next(a)", "enumerate(a)",
	"sum(a)", "map(str, a)", "zip(a)",
	"len(a)", "'id' in a", "a in [1]", "a in {1}",
	"str(a)", "repr(a)", "print(a)", "print([a])", "f'{a}'", "'%s' % a", "'{}'.format(a)", "'x' + a", "a + 'x'", "','.join(a)",
	"format(a, 'x')",
	"hash(a)", "{a}", "{a: 1}", "int(a)", "float(a.price)", "complex(a)", "bytes(a)", "round(a)", "math.floor(a)", "[1, 2][a]", "range(a)",
	"memoryview(a)",
	"a + 1", "1 + a", "a - 1", "2 * a", "a / 2", "a // 2", "a % 2", "a ** 2", "a @ a", "a << 1", "a & 1", "a | {}", "{} | a", "a ^ 1", "-a",
	"+a", "~a", "abs(a)", "divmod(a, 2)", "a += 1", "math.sqrt(a)",
	"a.items()", "a()", "a.id.upper()", "await a", "async for x in a: pass", "async with a: pass", "with a: pass",
	"a['x'] = 1", "a.x = 1", "del a['x']", "del a.x", "a[1:2]", "a[a]", "a.get('x', 1)", "a.get(5)",
	"isinstance(a, dict)", "a.__class__", "dir(a)", "json.dumps(a)", "json.dumps({'x': [a]})", "import pickle; pickle.dumps(a)",
	"match a:\n    case {'id': x}: pass", "match a:\n    case dict(): pass", "match a:\n    case 'x': pass",
	"write_file('x', a)", "write_file(a, 'x')", "progress(1, 1, a)", "show(a)", "ask(a)", "filter_by_field(a, 'x', 1)",
	"format_output({1: [a], 2: {5}, 3: (a == a)})",
	"order({1: 2}[a.id])", "import collections; order(collections.deque([a]))", "raise ValueError(str(a))",
}

// demands are functions of C that take nothing but text and do not ask a
// placeholder what it is: they raise a TypeError, which code may catch. Where they
// ask for its bytes the plan has ended, whatever is caught.
var demands = map[string]bool{ // whether the plan has ended
	"','.join([a])": false, "date.fromisoformat(a)": false, "getattr(a, a)": false, "re.match('x', a)": true, "open(a)": true,
}

func TestTextOnlyFunctionsRejectPlaceholder(t *testing.T) {
	for code, ends := range demands {
		if p, o := dry(t, "a = order('first')\n"+code); o.Status != sandbox.Raised ||
			o.ErrorType != "TypeError" && o.ErrorType != "PlanEnds" || len(p.ended) > 0 != ends {
			t.Errorf("%s: %s %s, ends %s", code, o.Status, o.Error, p.ended)
		}
	}
}

func TestUsingPlaceholderEndsPlan(t *testing.T) {
	for _, look := range looks {
		t.Run(look, func(t *testing.T) {
			p, o := dry(t, "a = order('first')\n\ntry:\n    "+strings.ReplaceAll(look, "\n",
				"\n    ")+"\nexcept Exception: pass\norder('never')")
			if o.Status != sandbox.Raised || o.ErrorType != "PlanEnds" || !strings.Contains(o.Error, "of call 1, shop.order") {
				t.Errorf("%s %s %s", o.Status, o.ErrorType, o.Error)
			}
			var at struct {
				Call, Line int
				Why        string
			}
			if len(p.ended) != 1 || json.Unmarshal([]byte(p.ended[0]), &at) != nil || at.Call != 1 || at.Line < 5 || at.Line > 6 ||
				at.Why == "" {
				t.Errorf("ends %s", p.ended)
			}
			if len(p.planned) != 1 {
				t.Errorf("planned %s", p.planned)
			}
		})
	}
}

func TestUsingPlaceholderInThreadEndsPlan(t *testing.T) {
	for _, code := range []string{
		"parallel(lambda: a == 1, lambda: 2)",
		"import threading\nt = threading.Thread(target=lambda: bool(a)); t.start(); t.join()",
		"import asyncio\nasync def f(): return len(a)\nawait asyncio.gather(f(), f())",
		"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as p: list(p.map(lambda x: x + 1, [a]))",
	} {
		if p, o := dry(t, "a = order('first')\n"+code); len(p.ended) == 0 {
			t.Errorf("%s\n%s %s", code, o.Status, o.Error)
		}
	}
}

func TestPlaceholderInResultBecomesText(t *testing.T) {
	_, o := dry(t, "a = order('first')\nresult = {'made': a, 'ids': [a.id, {1, 2}]}")
	const want = `{"made":"<the result of call 1, shop.order (object)>","ids":["<the result['id'] of call 1, shop.order (string)>",[1,2]]}`
	if string(o.Result) != want {
		t.Errorf("%s %s", o.Result, o.Traceback)
	}
}

func TestPlaceholderPartsFollowSchema(t *testing.T) {
	const code = `
def tried(f):
    try: return str(type(f()).__name__)
    except (KeyError, AttributeError) as e: return repr(e)
[tried(lambda: a.closed.x), tried(lambda: a["closed"]["y"]), tried(lambda: a.closed.y), tried(lambda: a.closed.get("y")), tried(lambda: a.other.y)]`
	_, o := dry(t, "a = order('first')\n"+code)
	const want = `["Placeholder","KeyError('y')","AttributeError('y')","KeyError('y')","Placeholder"]`
	if string(o.Result) != want {
		t.Errorf("%s %s", o.Result, o.Traceback)
	}
}

func TestDryRunDoesNotWrite(t *testing.T) {
	w, h := openShop(t)
	const code = `write_file('old.txt', 'new'); write_file('d/a.txt', 'x')
first = [read_file('old.txt'), read_file('d/a.txt'), list_files(), list_files('d')]
delete_file('old.txt'); delete_file('d/a.txt'); delete_file('gone.txt')
def missing(f, *args):
    try: return f(*args)
    except FileNotFoundError as e: return str(e)
[first, list_files(), missing(read_file, 'old.txt'), missing(delete_file, 'gone.txt'), list_files('d')]`
	const want = `[["new","x",["d/a.txt","gone.txt","old.txt"],["d/a.txt"]],[],"File not found: old.txt","File not found: gone.txt",[]]`
	w.program(t, sandbox.Program{Code: "write_file('old.txt', 'old'); write_file('gone.txt', '')"}, h)
	if o := w.program(t, sandbox.Program{Code: code, DryRun: true}, h); string(o.Result) != want {
		t.Errorf("%s %s", o.Result, o.Traceback)
	}
	if o := w.program(t, sandbox.Program{Code: "[read_file('old.txt'), list_files()]"},
		h); string(o.Result) != `["old",["gone.txt","old.txt"]]` {
		t.Errorf("afterwards: %s %s", o.Result, o.Traceback)
	}
	o := w.program(t, sandbox.Program{Code: "save_skill('s', 'def s(): return 2')\nfrom skills import s\ns()", DryRun: true}, h)
	if string(o.Result) != "2" {
		t.Errorf("%s %s", o.Result, o.Traceback)
	}
}
