//go:build linux

package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// program is one row: code and its expected outcome.
type program struct {
	name string
	code string
	vars string
	want want
}

// want is an outcome as far as a row cares. What is left out must be empty,
// except traceback and stderr, which are lists of parts ("!x" means without x),
// Error, of which a part is enough, and a Result that ends in "…".
type want struct {
	Status    sandbox.Status // Completed if left out
	Result    string
	Error     string
	ErrorType string
	Limit     string
	Output    []string
	Traceback []string
	Stderr    []string
	Images    []string
}

func raised(kind, message string, traceback ...string) want {
	return want{Status: sandbox.Raised, ErrorType: kind, Error: message, Traceback: traceback}
}

func value(json string) want { return want{Result: json} }

func printed(lines ...string) want { return want{Output: lines} }

// outcome returns what a row may compare, with the parts that it did find put
// in the place of the whole.
func outcome(o sandbox.Outcome, output []string, w want) want {
	got := want{
		Status: o.Status, Result: string(o.Result), Error: o.Error, ErrorType: o.ErrorType, Limit: o.Limit,
		Output: output, Traceback: w.Traceback, Stderr: w.Stderr,
	}
	if w.Error != "" && strings.Contains(o.Error, w.Error) {
		got.Error = w.Error
	}
	if err := contains(o.Traceback, w.Traceback); err != nil {
		got.Traceback = []string{err.Error()}
	}
	if err := contains(o.Stderr, w.Stderr); err != nil {
		got.Stderr = []string{err.Error()}
	}
	if part, ok := strings.CutSuffix(w.Result, "…"); ok && strings.HasPrefix(got.Result, part) {
		got.Result = w.Result
	}
	for _, i := range o.Images {
		got.Images = append(got.Images, i.MIME)
	}
	return got
}

func TestPrograms(t *testing.T) {
	for _, rows := range [][]program{values, outputs, raisings, helpers, skillRows, sources, surroundings} {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) { check(t, open(t, worker.Limits{ResultBytes: 1 << 20}), row) })
		}
	}
}

// A worker that the zygote forked before it imported everything must behave as any other.
func TestProgramsInTheFirstWorker(t *testing.T) {
	longtest.SkipSlow(t)
	own := []program{
		{"little is imported", "import sys\n[m for m in ('asyncio', 'multiprocessing', 'subprocess', 'logging', 'csv', 'random', " +
			"'inspect', 'dataclasses', 'socket', 'selectors', 'pathlib', 'decimal', 'uuid') if m in sys.modules]", "", value(`[]`)},
		{"statistics is a module", "import statistics as s\n[statistics is s, type(s).__name__, s.__name__, 'mean' in dir(s), s.mean([1, " +
			"2]), hasattr(s, 'nothing'), '__getattr__' in vars(s)]", "", value(`[true,"module","statistics",true,1.5,false,false]`)},
		{"a replaced function of statistics", "import statistics\nstatistics.mean = len\n[statistics.mean([7, 8]), " +
			"statistics.median([1, 3])]", "", value(`[2,2.0]`)},
		{"a missing name of statistics", "import statistics\nstatistics.meann", "",
			raised("AttributeError", "module 'statistics' has no attribute 'meann'. Did you mean: 'mean'?")},
		{"an error when no descriptor is free", "import os\nwhile True:\n    try: os.open('/dev/null', os.O_RDONLY)\n    except OSError: " +
			"break\nundefined", "", raised("NameError", "name 'undefined' is not defined")},
		{"colors are unchanged", "import traceback, os\nos.environ['FORCE_COLOR'] = '1'\ntry: 1/0\nexcept ZeroDivisionError as e: text = " +
			"[''.join(traceback.format_exception_only(e, colorize=c)) for c in (False, True)]\ntext", "",
			value(`["ZeroDivisionError: division by zero\n","\u001b[1;35mZeroDivisionError\u001b[0m: \u001b[35mdivision by ` +
				`zero\u001b[0m\n"]`)},
		{"a class of a late module", "import decimal\nclass D(decimal.Decimal): pass\n[D('1.5'), {decimal.Decimal('0.1'): " +
			"decimal.Decimal('2')}]", "", value(`[1.5,{"0.1":2}]`)},
		{"late modules one after the other", "import fractions\nimport pathlib\nprint(format_output(fractions.Fraction(1, 2)))\nimport " +
			"uuid\n[pathlib.Path('a'), uuid.UUID(int=1), fractions.Fraction(1, 3)]", "",
			want{Result: `["a","00000000-0000-0000-0000-000000000001","1/3"]`, Output: []string{`"1/2"`}}},
		{"sockets are adjusted", "import socket\nsocket.getaddrinfo('example.com', 80)", "", raised("gaierror", "no network here")},
		{"selectors are adjusted", "import selectors\nselectors.DefaultSelector.__name__", "", value(`"PollSelector"`)},
		{"asyncio is adjusted", "import asyncio, sys\nasyncio.selector_events._HAS_SENDMSG, 'ssl' in sys.modules", "",
			value(`[false,false]`)},
		{"its submodule first", "import asyncio.sslproto\nasyncio.selector_events._HAS_SENDMSG, asyncio.sslproto.ssl", "",
			value(`[false,null]`)},
		{"multiprocessing is adjusted", "import multiprocessing.pool\nmultiprocessing.get_start_method()", "", value(`"fork"`)},
		{"subprocess is adjusted", "import asyncio.subprocess, subprocess\nsubprocess.run(['no-such-program'])", "",
			raised("FileNotFoundError", "programs other than Python")},
		{"a file of the same name", "import sys\nsys.path.insert(0, workspace)\nwrite_file('asyncio.py', '')\nimport " +
			"asyncio\nasyncio.sleep.__name__", "", value(`"sleep"`)},
	}
	for _, rows := range [][]program{own, values, outputs, raisings, helpers, skillRows, sources, surroundings} {
		for _, row := range rows {
			if row.name == "what is warm" {
				continue
			}
			t.Run(row.name, func(t *testing.T) { check(t, early.open(t, worker.Limits{ResultBytes: 1 << 20}), row) })
		}
	}
}

func check(t *testing.T, w *pyWorker, row program) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h := newHost()
	o := w.run(ctx, t, row.code, row.vars, h)
	if row.want.Status == "" {
		row.want.Status = sandbox.Completed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if diff := cmp.Diff(row.want, outcome(o, h.output, row.want)); diff != "" {
		t.Errorf("%s\ntraceback: %s\nstderr: %s", diff, o.Traceback, o.Stderr)
	}
}

var values = []program{
	{"the last expression", "1+1", "", value(`2`)},
	{"result", "result = {'a': [1, 2.5, None, True]}", "", value(`{"a":[1,2.5,null,true]}`)},
	{"result wins over the last expression", "result = 1\n2", "", value(`1`)},
	{"a result of None is a value", "result = None", "", value(`null`)},
	{"a last expression of None is none", "print('x')", "", printed("x")},
	{"an annotation alone assigns nothing", "result: int", "", want{}},
	{"no value", "x = 1", "", want{}},
	{"nothing at all", "", "", want{}},
	{"only a comment", "# hm", "", want{}},
	{"only a string", "'''text'''", "", value(`"text"`)},
	{"a docstring and an expression", "'''text'''\n5", "", value(`5`)},
	{"expression after a semicolon", "x = 2; x * 3", "", value(`6`)},
	{"variables", "a + b['c'][0]", `{"a": 1, "b": {"c": [2]}}`, value(`3`)},
	{"a variable that is no identifier", "globals()['a-b']", `{"a-b": 7}`, value(`7`)},
	{"a variable named result is not the result", "x = result", `{"result": 7}`, want{}},
	{"a variable named result may be read", "result + 1", `{"result": 7}`, value(`8`)},
	{"a variable named result may be changed", "result += 1", `{"result": 7}`, value(`8`)},
	{"a variable hides a helper", "json", `{"json": 3}`, value(`3`)},
	{"result assigned in a function", "def f():\n    global result\n    result = 3\nf()", "", value(`3`)},
	{"result assigned by exec", "exec('result = 4')", "", value(`4`)},
	{"top-level await", "import asyncio\nawait asyncio.sleep(0, 'slept')", "", value(`"slept"`)},
	{"async comprehension", "async def g():\n    for i in range(3): yield i\n[i async for i in g()]", "", value(`[0,1,2]`)},
	{"async for and result", "async def g():\n    yield 5\nasync for x in g():\n    result = x", "", value(`5`)},
	{"asyncio.run in plain code", "import asyncio\nasync def f(): return 9\nasyncio.run(f())", "", value(`9`)},
	{"gather", "import asyncio\nasync def f(x): return x * 2\nawait asyncio.gather(f(1), f(2))", "", value(`[2,4]`)},
	{"sys.exit ends well", "import sys\nresult = 5\nsys.exit()\nresult = 6", "", value(`5`)},
	{"sys.exit(0)", "import sys; sys.exit(0)", "", want{}},
	{"exit()", "result = 1\nexit()", "", value(`1`)},

	{"datetime", "[datetime(2024, 1, 2, 3, 4, 5), date(2024, 1, 2), timedelta(minutes=1), timedelta(seconds=1.5)]", "",
		value(`["2024-01-02T03:04:05","2024-01-02",60,1.5]`)},
	{"time with zone", "import datetime as d\nd.datetime(2024, 1, 2, tzinfo=d.timezone.utc)", "", value(`"2024-01-02T00:00:00+00:00"`)},
	{"Decimal", "from decimal import Decimal as D\n[D('1.10'), D('3'), D('0.1234567890123456789'), D('NaN'), D('1E+400')]", "",
		value(`[1.1,3,"0.1234567890123456789",null,"1E+400"]`)},
	{"Fraction and complex", "from fractions import Fraction\n[Fraction(1, 3), 1+2j]", "", value(`["1/3","(1+2j)"]`)},
	{"not finite", "[float('nan'), float('inf'), -float('inf'), 1e308*10]", "", value(`[null,null,null,null]`)},
	{"not finite is reported", "from decimal import Decimal\n[float('nan'), Decimal('NaN'), Decimal('1.5'), float('inf')]", "",
		want{Result: `[null,null,1.5,null]`, Stderr: []string{"NaN and infinity are null in the result (3 of them): JSON has no such " +
			"numbers"}}},
	{"one Decimal not finite is reported", "from decimal import Decimal\n[Decimal('NaN')]", "",
		want{Result: `[null]`, Stderr: []string{"(1 of them)"}}},
	{"code in a fence", "```python\nx = 2\nx * 3\n```\nThat is six.", "", value(`6`)},
	{"a line number in a fence", "```py\n\n1/0\n```", "", raised("ZeroDivisionError", "division by zero", "line 3")},
	{"a fence in a string", "s = \"\"\"\n```\n\"\"\"\n1 +", "", raised("SyntaxError", "invalid syntax")},
	{"a magic that is not needed", "%matplotlib inline\n  \nif True:\n    %config x\n5", "",
		want{Result: `5`, Stderr: []string{"%matplotlib inline: not needed: plt.show(), or a figure as the last expression, returns a " +
			"picture"}}},
	{"a magic of a cell", "%%time\n5", "", want{Result: `5`, Stderr: []string{"%%time: not needed: each answer has execution_time_ms"}}},
	{"a magic that does something", "%timeit f()", "", raised("SyntaxError",
		"%timeit is a command of IPython, which is not available: use timeit.timeit(f, number=10)")},
	{"a shell command", "!curl example.com", "", raised("SyntaxError",
		"there is no shell here: write it in Python, or use a tool of a server")},
	{"installing", "x = 1\n!pip install -q nothing_such==1.0 json", "",
		raised("SyntaxError", "code cannot install packages: use the standard library, or ask the operator to run `sandpiper packages "+
			"add nothing_such`")},
	{"installing what is there", "!pip install json\njson.dumps(1)", "", value(`"1"`)},
	{"a modulo at the start of a line", "(7\n% 4)", "", value(`3`)},
	{"a float nan alone", "float('nan')", "", value(`null`)},
	{"sets are sorted", "[{3, 1, 2}, frozenset('ab'), set()]", "", value(`[[1,2,3],["a","b"],[]]`)},
	{"a set that cannot be sorted", "sorted(map(str, json.loads(json.dumps(list({1})))))", "", value(`["1"]`)},
	{"deque, range, views", "[collections.deque([1]), range(3), {'a': 1}.keys(), {'a': 1}.values(), {'a': 1}.items()]", "",
		value(`[[1],[0,1,2],["a"],[1],[["a",1]]]`)},
	{"iterators", "[(i for i in range(2)), map(str, [1]), zip('a', 'b'), reversed([1, 2])]", "", value(`[[0,1],["1"],[["a","b"]],[2,1]]`)},
	{"bytes", "[b'text', bytearray(b'x'), memoryview(b'y'), b'\\xff\\x00']", "", value(`["text","x","y",{"base64":"/wA="}]`)},
	{"array", "import array\narray.array('i', [1, 2])", "", value(`[1,2]`)},
	{"dataclass", "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: list\nP(1, [date(2024, 1, 1)])", "",
		value(`{"x":1,"y":["2024-01-01"]}`)},
	{"dataclass with slots", "from dataclasses import dataclass\n@dataclass(slots=True, frozen=True)\nclass P:\n    x: int\n[P(1)]", "",
		value(`[{"x":1}]`)},
	{"NamedTuple", "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: str\n[P(1, 'b')]", "",
		value(`[{"x":1,"y":"b"}]`)},
	{"namedtuple in a large list", "P = collections.namedtuple('P', 'x')\n[P(i) for i in range(3)] + [1]*3", "",
		value(`[{"x":0},{"x":1},{"x":2},1,1,1]`)},
	{"Enum", "import enum\nclass E(enum.Enum):\n    A = 'a'\nclass I(enum.IntEnum):\n    B = 2\nclass S(enum.StrEnum):\n    C = " +
		"'c'\n[E.A, I.B, S.C, {E.A: 1}]", "",
		value(`["a",2,"c",{"a":1}]`)},
	{"Path and UUID", "import pathlib, uuid\n[pathlib.Path('/a/b'), uuid.UUID(int=1)]", "",
		value(`["/a/b","00000000-0000-0000-0000-000000000001"]`)},
	{"IP address", "import ipaddress\nipaddress.ip_address('10.0.0.1')", "", value(`"10.0.0.1"`)},
	{"dict subclasses", "[collections.Counter('aab'), collections.OrderedDict(a=1), collections.defaultdict(int, b=2), " +
		"collections.ChainMap({'c': 3})]", "",
		value(`[{"a":2,"b":1},{"a":1},{"b":2},{"c":3}]`)},
	{"list and str subclasses", "class L(list): pass\nclass T(str): pass\nclass F(float): pass\nclass I(int): pass\n[L([1]), T('x'), " +
		"F(1.5), I(3), {T('k'): 1}]", "",
		value(`[[1],"x",1.5,3,{"k":1}]`)},
	{"user containers", "[collections.UserDict(a=1), collections.UserList([1]), collections.UserString('x')]", "",
		value(`[{"a":1},[1],"x"]`)},
	{"keys that are no text", "{1: 'a', None: 'b', True: 'c', 2.5: 'd', (1, 2): 'e', date(2024, 1, 1): 'f', b'g': 'h'}", "",
		value(`{"1":"c","null":"b","2.5":"d","(1, 2)":"e","2024-01-01":"f","g":"h"}`)},
	{"nan as a key", "{float('nan'): 1}", "", value(`{"null":1}`)},
	{"lone surrogates", "['\\ud800', '\\ud83d\\ude00', {'\\udfff': 1}]", "", value("[\"\uFFFD\",\"\U0001F600\",{\"\uFFFD\":1}]")},
	{"text of all kinds", "'\\x00\\n\\\"\\\\é\\U0001F600'", "", value("\"\\u0000\\n\\\"\\\\é\U0001F600\"")},
	{"an int beyond 64 bits", "2**100", "", value(`1267650600228229401496703205376`)},
	{"an int of 4,000 digits", "len(str(json.loads(json.dumps(10**3999)))), 10**3999 > 0", "", value(`[4000,true]`)},
	{"an int too long for decimal", "result = 1 << 20000\nassert True", "", want{Result: `"0x1` + strings.Repeat("0", 5000) + `"`}},
	{"a cycle", "a = [1]; a.append(a); d = {'a': a}; d['d'] = d\n[a, d]", "", value(`[[1,"<cycle>"],{"a":[1,"<cycle>"],"d":"<cycle>"}]`)},
	{"the same thing twice is no cycle", "a = [1]; [a, a]", "", value(`[[1],[1]]`)},
	{"100,000 nested lists", "x = []\nfor _ in range(100000): x = [x]\nresult = len(json.dumps('')) and x", "",
		value(strings.Repeat("[", 200) + `"<too deep>"` + strings.Repeat("]", 200))},
	{"200 levels are fine", "x = 1\nfor _ in range(200): x = [x]\nx", "", value(strings.Repeat("[", 200) + "1" + strings.Repeat("]", 200))},
	{"numpy and pandas by their shape", fakeNumpy, "", value(`[[1,2],3.5,[{"a":1,"t":null}],{"x":1},[7,8]]`)},
	{"pydantic by its shape", "class M:\n    def model_dump(self): return {'a': date(2024, 1, 1)}\nM()", "", value(`{"a":"2024-01-01"}`)},
	{"attrs by its shape", "class A: name = 'x'\nclass C:\n    __attrs_attrs__ = (A,)\n    x = 5\nC()", "", value(`{"x":5}`)},
	{"a plain object is its repr", "class C:\n    def __repr__(self): return 'C!'\n[C(), len, json, C]", "",
		value(`["C!","<built-in function len>","<module 'json' from '/…`)},
	{"a repr that raises", "class C:\n    def __repr__(self): 1/0\nC()", "", value(`"<C object>"`)},
	{"a repr that exits", "class C:\n    def __repr__(self): raise SystemExit(3)\n[C()]", "", value(`["<C object>"]`)},
	{"a repr of a million characters", "class C:\n    def __repr__(self): return 'x' * 10**6\nlen(json.dumps(1)) and C()", "",
		value(`"` + strings.Repeat("x", 20000) + `… (1000000 characters)"`)},
	{"a hostile iterator", "class C(list):\n    def __iter__(self): raise KeyboardInterrupt\n    def __repr__(self): return 'C?'\n[C([1])]",
		"", value(`["C?"]`)},
	{"a hostile class", "class M(type):\n    def __getattribute__(c, n): raise ValueError(n)\nclass C(metaclass=M):\n    def " +
		"__repr__(self): return 'C?'\n[C()]", "",
		value(`["C?"]`)},
	{"a lying class", "class C:\n    @property\n    def __class__(self): return dict\n    def __repr__(self): return 'liar'\n[C()]", "",
		value(`["liar"]`)},
	{"getattr that answers everything", "class C:\n    def __getattr__(self, n): return lambda *a, **k: self\n    def __repr__(self): " +
		"return 'yes'\n[C()]", "", value(`["yes"]`)},
	{"items that lie", "class D(dict):\n    def items(self): return 5\nD(a=1)", "", value(`"{'a': 1}"`)},
	{"an exception as a value", "ValueError('x')", "", value(`"ValueError('x')"`)},
	{"an open file", "import sys\n[sys.stdin.read(), open('f', 'w').close(), type(open('f')).__name__]", "",
		value(`["",null,"TextIOWrapper"]`)},
	{"an endless iterator", "import itertools\nitertools.count()", "", tooLarge("more than 1048576 bytes")},
	{"a range without end", "range(10**12)", "", tooLarge("more than 1048576 bytes")},
	{"a little that says much", "a = [0]*1000; b = [a]*1000; c = [b]*1000\nc", "", tooLarge("more than 1048576 bytes")},
	{"a branching cycle", "a = []; a.append(a); a.append(a)\na", "", value(`["<cycle>","<cycle>"]`)},
	{"a result that is too large", "'x' * (1 << 20)", "", tooLarge("1048578 bytes of JSON, at most 1048576 are allowed: write it " +
		"to a file")},
	{"10,000 rows", "rows = [{'id': i, 'name': 'n', 'v': i / 2} for i in range(10**4)]\nresult = rows\n", "",
		value(`[{"id":0,"name":"n","v":0.0},…`)},
}

func tooLarge(message string) want {
	return want{Status: sandbox.Raised, ErrorType: "ResultTooLarge", Error: message, Limit: sandbox.LimitResult}
}

const fakeNumpy = `
import types, sys
np = types.ModuleType('numpy'); pd = types.ModuleType('pandas')
class ndarray:
    def tolist(self): return [1, 2]
class float64(float):
    def tolist(self): return float(self)
class DataFrame:
    columns = ['a', 't']
    def to_dict(self, orient): return [{'a': 1, 't': NaTType()}]
class NaTType: pass
class Index:
    def tolist(self): return ['x']
class RangeIndex(Index): pass
class Series:
    def __init__(self, index, values): self.index, self.values = index, values
    def tolist(self): return self.values
for c in (ndarray, float64): c.__module__ = 'numpy'
for c in (DataFrame, NaTType, Index, RangeIndex, Series): c.__module__ = 'pandas.core'
[ndarray(), float64(3.5), DataFrame(), Series(Index(), [1]), Series(RangeIndex(), [7, 8])]
`
