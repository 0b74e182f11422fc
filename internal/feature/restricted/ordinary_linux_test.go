package restricted

// seedData is the data of examples in older documentation.
const seedData = `write_file("large_dataset.json", json.dumps([{"id": i, "status": "active" if i % 3 else "closed"} for i in range(30)]))
write_file("scan_results.json", json.dumps([{"id": 1, "severity": "high"}, {"id": 2, "severity": "low"}, {"id": 3, "severity": "critical"}]))
`

const filterHighRisk = `save_skill(
    name="filter_high_risk",
    code="def filter_high_risk(vulns): return [v for v in vulns if v['severity'] in ['high', 'critical']]",
    description="Filter vulnerabilities to high/critical only"
)
`

// ordinary are programs that the check lets through, and that do the same as
// without it.
var ordinary = []program{
	// the first users' examples
	{name: "the large dataset", code: seedData + `
data = json.loads(read_file("large_dataset.json"))
filtered = [d for d in data if d['status'] == 'active']
result = {
    'total': len(data),
    'active': len(filtered),
    'sample': filtered[:5]
}
result = result['total'], result['active'], len(result['sample'])`, want: value(`[30,20,5]`)},
	{name: "a skill by exec", code: seedData + filterHighRisk + `
skill = load_skill("filter_high_risk")
exec(skill)
vulns = json.loads(read_file("scan_results.json"))
result = filter_high_risk(vulns)`, want: value(`[{"id":1,"severity":"high"},{"id":3,"severity":"critical"}]`)},
	{name: "a skill by exec as code", code: filterHighRisk + `code = load_skill("filter_high_risk"); exec(code)
filter_high_risk([{"severity": "high"}])`, want: value(`[{"severity":"high"}]`)},
	{name: "a skill by import", code: filterHighRisk + `from skills import filter_high_risk
filter_high_risk([{"severity": "low"}])`, want: value(`[]`)},
	{name: "a skill by the import of its module", code: filterHighRisk + `import skills.filter_high_risk as s
s.filter_high_risk([{"severity": "critical"}])`, want: value(`[{"severity":"critical"}]`)},
	{name: "a skill that uses modules and globals", code: `save_skill("s", "import csv, io\ndef s(t): return [dict(r) for r in csv.DictReader(io.StringIO(t))] + [math.floor(1.5), json.dumps(1)]")
from skills import s
s("a,b\n1,2")`, want: value(`[{"a":"1","b":"2"},1,"1"]`)},
	{name: "a skill that imports a skill", code: `save_skill("a", "def a(): return 4")
save_skill("b", "from skills import a\ndef b(): return a() + 1")
from skills import b
b()`, want: value(`5`)},
	{name: "a skill that raises", code: `save_skill("s", "def s(): raise ValueError('no')")
from skills import s
s()`, want: raised("ValueError", "no", "in s", "def s(): raise")},
	{name: "the builtins of the seed", code: `[abs(-1), all([]), any([]), ascii('é'), bin(2), bool(0), bytes(1), callable(len), chr(65), dict(a=1), divmod(5, 2),
 list(enumerate('a')), list(filter(None, [0, 1])), float('1'), format(1, '03'), frozenset(), hash(1), hex(9), int('7'), isinstance(1, int),
 issubclass(bool, int), next(iter([3])), len(''), list(map(str, [1])), max(1, 2), min(1, 2), type(object()).__name__, oct(8), ord('A'),
 pow(2, 3), range(2), repr('x'), list(reversed([1, 2])), round(1.5), set(), slice(1).stop, sorted([2, 1]), str(1), sum([1]), tuple(),
 type(1).__name__, list(zip([1], [2])), True, False, None]`, want: value(`[1,true,false,"'\\xe9'","0b10",false,"\u0000",true,"A",{"a":1},[2,1],[[0,"a"]],[1],1.0,"001",[],1,"0x9",7,true,true,3,0,["1"],2,1,"object","0o10",65,8,[0,1],"'x'",[2,1],2,[],1,[1,2],"1",1,[],"int",[[1,2]],true,false,null]`)},
	{name: "the exceptions of the seed", code: `caught = []
for e in Exception, ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, StopIteration:
    try: raise e('x')
    except e as x: caught.append(type(x).__name__)
len(caught)`, want: value(`8`)},
	{name: "the modules of the seed", code: `[json.loads('1'), re.sub('a', 'b', 'a'), math.sqrt(4), statistics.mean([1, 3]), collections.Counter('aa')['a'],
 datetime(2024, 1, 2).year, date(2024, 1, 2).month, timedelta(days=1).days]`, want: value(`[1,"b",2.0,2,2,2024,1,1]`)},
	{name: "the files of the seed", code: `w = write_file("a.txt", "x")
[w, read_file("a.txt"), list_files(), delete_file("a.txt"), list_files(), workspace != ""]`, want: value(`["Written 1 bytes to a.txt","x",["a.txt"],"Deleted a.txt",[],true]`)},
	{name: "a file outside", code: `read_file("/etc/passwd")`, want: raised("PermissionError", "Access denied: path outside workspace")},
	{name: "the helpers of the seed", code: `rows = [{"a": 1, "k": "x"}, {"a": 3, "k": "y"}]
[filter_by_field(rows, "k", "x"), summarize_list(rows, 1), aggregate_stats(rows), format_output([1])]`,
		want: value(`[[{"a":1,"k":"x"}],{"count":2,"sample":[{"a":1,"k":"x"}]},{"count":2,"a_sum":4,"a_avg":2.0,"a_min":1,"a_max":3},"[\n  1\n]"]`)},
	{name: "variables", code: "[x, y['z'], result]", vars: `{"x": 1, "y": {"z": 2}, "result": 3}`, want: value(`[1,2,3]`)},
	{name: "a variable named like a module", code: "json", vars: `{"json": 3}`, want: value(`3`)},
	{name: "a variable named like a builtin that is not there", code: "open + 1", vars: `{"open": 3}`, want: value(`4`)},

	// data
	{name: "csv", code: "import csv, io\nrows = list(csv.DictReader(io.StringIO('a,b\\n1,2\\n3,4')))\nout = io.StringIO()\nw = " +
		"csv.DictWriter(out, ['a', 'b'])\nw.writeheader(); w.writerows(rows)\n[sum(int(r['b']) for r in rows), out.getvalue()]",
		want: value(`[6,"a,b\r\n1,2\r\n3,4\r\n"]`)},
	{name: "json with errors", code: "try:\n    json.loads('{')\nexcept json.JSONDecodeError as e:\n    result = e.msg",
		want: value(`"Expecting property name enclosed in double quotes"`)},
	{name: "json.decoder", code: "import json\ntry:\n    json.loads('{')\nexcept json.decoder.JSONDecodeError as e:\n    result = e.pos",
		want: value(`1`)},
	{name: "a JSON encoder of its own", code: "class E(json.JSONEncoder):\n    def default(self, o): return sorted(o) if isinstance(o, " +
		"set) else super().default(o)\njson.dumps({2, 1}, cls=E)", want: value(`"[1, 2]"`)},
	{name: "groups", code: "from collections import defaultdict, Counter\ng = defaultdict(list)\nfor k, v in [('a', 1), ('b', 2), ('a', " +
		"3)]:\n    g[k].append(v)\n[g, Counter('aab').most_common(1)]", want: value(`[{"a":[1,3],"b":[2]},[["a",2]]]`)},
	{name: "itertools", code: "from itertools import groupby, chain, islice, count, product\n[list(islice(count(), 3)), [k for k, _ in " +
		"groupby('aab')], list(chain([1], [2])), len(list(product('ab', repeat=2)))]", want: value(`[[0,1,2],["a","b"],[1,2],4]`)},
	{name: "functools", code: "import functools\n@functools.lru_cache(maxsize=None)\ndef fib(n): return n if n < 2 else fib(n - 1) + " +
		"fib(n - 2)\n[fib(50), functools.reduce(lambda a, b: a * b, range(1, 6)), functools.partial(max, 3)(1)]",
		want: value(`[12586269025,120,3]`)},
	{name: "a decorator with wraps", code: "from functools import wraps\ndef twice(f):\n    @wraps(f)\n    def g(*a, **k): return f(*a, " +
		"**k) * 2\n    return g\n@twice\ndef f(x):\n    'doc'\n    return x\n[f(2), f.__name__, f.__doc__]", want: value(`[4,"f","doc"]`)},
	{name: "decimal and fractions", code: "from decimal import Decimal, getcontext\nfrom fractions import Fraction\ngetcontext().prec = " +
		"5\n[str(Decimal(1) / 3), str(Fraction(1, 3) + 1)]", want: value(`["0.33333","4/3"]`)},
	{name: "datetime as a module", code: "import datetime as dt\n(dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc) + " +
		"dt.timedelta(hours=1)).isoformat()", want: value(`"2024-01-02T01:00:00+00:00"`)},
	{name: "strptime", code: "datetime.strptime('2024-01-02', '%Y-%m-%d').strftime('%d.%m.%y')", want: value(`"02.01.24"`)},
	{name: "zones", code: "from zoneinfo import ZoneInfo\nstr(ZoneInfo('UTC'))", want: value(`"UTC"`)},
	{name: "regular expressions", code: "import re\nm = re.search(r'(?P<n>\\d+)', 'a12')\n[m['n'], m.span(), re.findall(r'\\w', 'a b'), " +
		"re.sub(r'\\d', lambda m: m.group() * 2, 'a1')]", want: value(`["12",[1,3],["a","b"],"a11"]`)},
	{name: "statistics and math", code: "import math, statistics\n[statistics.median([3, 1, 2]), round(statistics.stdev([1, 2, 3]), 2), " +
		"math.comb(5, 2), math.prod([2, 3])]", want: value(`[2,1.0,10,6]`)},
	{name: "random with a seed", code: "import random\nrandom.seed(1)\na = random.random()\nrandom.seed(1)\na == random.random()",
		want: value(`true`)},
	{name: "hashes", code: "import hashlib, hmac, base64\n[hashlib.sha256(b'x').hexdigest()[:8], hmac.new(b'k', b'm', " +
		"'sha256').hexdigest()[:4], base64.b64encode(b'x').decode()]", want: value(`["2d711642","b600","eA=="]`)},
	{name: "operator and heapq", code: "from operator import itemgetter, attrgetter, methodcaller\nimport heapq\n[sorted([(1, 'b'), (2, " +
		"'a')], key=itemgetter(1))[0][0], attrgetter('year')(date(2024, 1, 1)), methodcaller('upper')('a'), heapq.nsmallest(1, [3, 1])]",
		want: value(`[2,2024,"A",[1]]`)},
	{name: "text", code: "import textwrap, string, difflib, unicodedata\n[textwrap.dedent(' a'), string.ascii_lowercase[:3], " +
		"string.Template('$x').substitute(x=1), difflib.get_close_matches('appel', ['apple']), unicodedata.name('a')]",
		want: value(`["a","abc","1",["apple"],"LATIN SMALL LETTER A"]`)},
	{name: "urls and html", code: "from urllib.parse import urlparse, parse_qs\nimport html\n[urlparse('http://a/b?c=1').path, " +
		"parse_qs('c=1'), html.escape('<')]", want: value(`["/b",{"c":["1"]},"&lt;"]`)},
	{name: "XML", code: "import xml.etree.ElementTree as ET\n[e.text for e in ET.fromstring('<a><b>1</b><b>2</b></a>')]",
		want: value(`["1","2"]`)},
	{name: "an HTML parser of its own", code: "from html.parser import HTMLParser\nclass P(HTMLParser):\n    def __init__(self):\n       " +
		" super().__init__()\n        self._seen = []\n    def handle_starttag(self, tag, attrs): self._seen.append(tag)\np = P(); " +
		"p.feed('<a><b>')\nP.seen = lambda self: self._seen\np.seen()", want: value(`["a","b"]`)},
	{name: "literal_eval, pprint, copy", code: "import ast, copy\nfrom pprint import pformat\na = ast.literal_eval('[1, {2: 3}]')\nb = " +
		"copy.deepcopy(a); b.append(1)\n[a, pformat(b)]", want: value(`[[1,{"2":3}],"[1, {2: 3}, 1]"]`)},
	{name: "compression and structs", code: "import zlib, struct, gzip, binascii\n[zlib.decompress(zlib.compress(b'x')), " +
		"struct.unpack('>H', b'\\0\\1')[0], gzip.decompress(gzip.compress(b'y')), binascii.hexlify(b'z')]",
		want: value(`["x",1,"y","7a"]`)},
	{name: "uuid, secrets and time", code: "import uuid, secrets, time\n[len(str(uuid.uuid4())), len(secrets.token_hex(4)), " +
		"time.time() > 0]", want: value(`[36,8,true]`)},
	{name: "all names of a module", code: "from math import *\nfloor(pi)", want: value(`3`)},
	{name: "a module and its submodule", code: "import collections.abc\nfrom collections import abc, OrderedDict\n[isinstance([], " +
		"collections.abc.Sequence), abc is collections.abc, OrderedDict(a=1)]", want: value(`[true,true,{"a":1}]`)},
	{name: "modules in packages", code: "import xml.etree.ElementTree, concurrent.futures, urllib.parse, " +
		"html.parser\n[xml.etree.ElementTree.fromstring('<a/>').tag, concurrent.futures.FIRST_COMPLETED, urllib.parse.quote(' '), " +
		"html.unescape('&lt;'), html.parser.HTMLParser().convert_charrefs]", want: value(`["a","FIRST_COMPLETED","%20","<",true]`)},
	{name: "what is true of modules", code: "import json as j, enum\n[j is json, j.__name__, hasattr(j, 'codecs'), 'dumps' in dir(j), " +
		"str(enum)]", want: value(`[true,"json",false,true,"<module 'enum'>"]`)},

	// classes
	{name: "a class", code: "class P:\n    count = 0\n    def __init__(self, x):\n        self._x = x\n        P.count += 1\n    def " +
		"__repr__(self): return f'P({self._x})'\n    def __eq__(self, other): return self._x == other._x\n    def __hash__(self): return " +
		"hash(self._x)\n    def __lt__(self, other): return self._x < other._x\n    @property\n    def x(self): return self._x\n    " +
		"@x.setter\n    def x(self, v): self._x = v\n    @classmethod\n    def of(cls, *a): return [cls(x) for x in a]\n    " +
		"@staticmethod\n    def no(): return 0\np = P.of(2, 1)\np[0].x = 5\n[repr(p), p[0] == P(5), [x.x for x in sorted(p)], P.no(), " +
		"P.count, len({P(1), P(1)})]",
		want: value(`["[P(5), P(1)]",true,[1,5],0,3,1]`)},
	{name: "a class with everything", code: "class B:\n    def __init__(self): self.items = {}\n    def __getitem__(self, k): return " +
		"self.items[k]\n    def __setitem__(self, k, v): self.items[k] = v\n    def __contains__(self, k): return k in self.items\n    " +
		"def __len__(self): return len(self.items)\n    def __iter__(self): return iter(self.items)\n    def __enter__(self): return " +
		"self\n    def __exit__(self, *a): self.items['left'] = True\n    def __call__(self, n): return n + 1\n    def __getattr__(self, " +
		"n): return n\n    def __add__(self, o): return 7\n    def __bool__(self): return False\nwith B() as b: b['k'] = 1\n[b['k'], 'k' " +
		"in b, len(b), list(b), b(1), b.zzz, b + 1, bool(b)]",
		want: value(`[1,true,2,["k","left"],2,"zzz",7,false]`)},
	{name: "inheritance", code: "class A:\n    def __init__(self, x): self.x = x\n    def __str__(self): return 'A'\nclass B(A):\n    " +
		"def __init__(self, x, y):\n        super().__init__(x)\n        self.y = y\n    def __str__(self): return super().__str__() + " +
		"'B'\nb = B(1, 2)\n[b.x, b.y, str(b), isinstance(b, A), type(b).__name__, issubclass(B, A), vars(b)]",
		want: value(`[1,2,"AB",true,"B",true,{"x":1,"y":2}]`)},
	{name: "an abstract class", code: "from abc import ABC, abstractmethod\nclass S(ABC):\n    @abstractmethod\n    def area(self): " +
		"...\nclass Q(S):\n    def area(self): return 4\ntry: S()\nexcept TypeError as e: result = ['abstract' in str(e), Q().area()]",
		want: value(`[true,4]`)},
	{name: "a dataclass", code: "from dataclasses import dataclass, field, asdict, replace\n@dataclass(order=True, frozen=True)\nclass " +
		"P:\n    x: int\n    y: list = field(default_factory=list)\n    def __post_init__(self): assert " +
		"self.x\n@dataclass(slots=True)\nclass Q(P if False else object):\n    z: int = 3\n[asdict(P(1)), replace(P(1), x=2), P(1) < " +
		"P(2), repr(Q())]", want: value(`[{"x":1,"y":[]},{"x":2,"y":[]},true,"Q(z=3)"]`)},
	{name: "dataclasses that inherit", code: "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\n@dataclass\nclass " +
		"B(A):\n    y: 'str' = 'b'\nB()", want: value(`{"x":1,"y":"b"}`)},
	{name: "an enumeration", code: "from enum import Enum, auto\nclass C(Enum):\n    RED = auto()\n    BLUE = auto()\n    @classmethod\n " +
		"   def _missing_(cls, v): return cls.RED\n[C.RED, C['BLUE'].value, C(99).name, [c.name for c in C]]",
		want: value(`[1,2,"RED",["RED","BLUE"]]`)},
	{name: "named tuples", code: "from collections import namedtuple\nfrom typing import NamedTuple\nP = namedtuple('P', 'x y')\nclass " +
		"Q(NamedTuple):\n    a: int\n    b: str = 'b'\n[P(1, 2)._asdict(), P(1, 2)._replace(x=3), Q._fields, Q(1)]",
		want: value(`[{"x":1,"y":2},{"x":3,"y":2},["a","b"],{"a":1,"b":"b"}]`)},
	{name: "generics and types", code: "from typing import Generic, TypeVar, Optional, TypedDict, Protocol\nT = TypeVar('T')\nclass " +
		"Stack(Generic[T]):\n    def __init__(self) -> None: self._items: list[T] = []\n    def push(self, x: T) -> 'Stack[T]':\n        " +
		"self._items.append(x)\n        return self\n    def __len__(self) -> int: return len(self._items)\nclass D(TypedDict):\n    a: " +
		"int\nclass N[X]:\n    def f(self, x: X) -> Optional[X]: return x\ndef g(kind: type[int], x: int | None = None) -> D: return " +
		"{'a': kind(3)}\n[len(Stack[int]().push(1)), N().f(2), g(int)]", want: value(`[1,2,{"a":3}]`)},
	{name: "type as a question", code: "[type(1) is int, type(int) is type, isinstance(int, type), isinstance(1, type), isinstance(1, " +
		"(str, type)), type(type(1)), type('x') == type('y'), {type(1): 2}[int], str(type(1))]",
		want: value(`[true,true,true,false,false,"<class 'type'>",true,2,"<class 'int'>"]`)},
	{name: "attributes by name", code: "class C:\n    def __init__(self): self._cache = 1\n    def get(self, n): return getattr(self, n, " +
		"None)\nc = C(); setattr(c, 'x', 2)\n[getattr(c, 'x'), getattr(c, 'y', 3), hasattr(c, 'x'), c.get('_cache'), hasattr(c, '_no'), " +
		"getattr(json, 'dumps')(1)]", want: value(`[2,3,true,1,false,"1"]`)},
	{name: "SimpleNamespace", code: "from types import SimpleNamespace as N\nn = N(a=1)\nvars(n)['b'] = 2\n[n.a, n.b]",
		want: value(`[1,2]`)},
	{name: "a context manager", code: "from contextlib import contextmanager, suppress, ExitStack\nlog = []\n@contextmanager\ndef " +
		"c(n):\n    log.append(n)\n    try: yield n\n    finally: log.append(-n)\nwith c(1) as x, suppress(KeyError), ExitStack() as " +
		"s:\n    s.enter_context(c(2))\n    {}['x']\nlog", want: value(`[1,2,-2,-1]`)},
	{name: "generators", code: "def g():\n    x = yield 1\n    yield from [x, 3]\na = g(); b = [next(a), a.send(2), *a]\nb",
		want: value(`[1,2,3]`)},
	{name: "patterns", code: "class P:\n    def __init__(self, x, y): self.x, self.y = x, y\ndef f(v):\n    match v:\n        case {'a': " +
		"[x, *rest], **more}: return [x, rest, more]\n        case P(x=0, y=y) if y: return y\n        case int(n) | float(n): return " +
		"-n\n        case str() as s: return s\n        case _: return None\n[f({'a': [1, 2], 'b': 3}), f(P(0, 5)), f(2), f('s'), f(None)]",
		want: value(`[[1,[2],{"b":3}],5,-2,"s",null]`)},
	{name: "exceptions", code: "class E(Exception):\n    def __init__(self, code):\n        super().__init__(f'code {code}')\n        " +
		"self.code = code\ntry:\n    try: {}['x']\n    except KeyError as e: raise E(3) from e\nexcept E as e: a = [str(e), " +
		"e.code]\ntry: raise ExceptionGroup('g', [ValueError(1)])\nexcept* ValueError as g: a.append(len(g.exceptions))\na",
		want: value(`["code 3",3,1]`)},
	{name: "a traceback as text", code: "import traceback\ntry: 1/0\nexcept ZeroDivisionError: t = traceback.format_exc()\n'division by " +
		"zero' in t", want: value(`true`)},
	{name: "an exception that nobody catches", code: "def f(): return 1/0\nf()",
		want: raised("ZeroDivisionError", "division by zero", `File "<code>", line 1, in f`, "def f(): return 1/0")},
	{name: "the usual last lines", code: "def main():\n    print('hello')\n    return 1\nif __name__ == '__main__':\n    main()",
		want: printed("hello")},
	{name: "exit", code: "result = 5\nexit()", want: value(`5`)},
	{name: "print to a stream", code: "import io\nfrom contextlib import redirect_stdout\ns = io.StringIO()\nprint('a', file=s)\nwith " +
		"redirect_stdout(s): print('b')\ns.getvalue()", want: value(`"a\nb\n"`)},

	// time, threads
	{name: "top-level await", code: "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x * 2\nawait " +
		"asyncio.gather(f(1), f(2))", want: value(`[2,4]`)},
	{name: "asyncio.run", code: "import asyncio\nasync def f():\n    async with asyncio.TaskGroup() as g:\n        t = " +
		"g.create_task(asyncio.sleep(0, 3))\n    return t.result()\nasyncio.run(f())", want: value(`3`)},
	{name: "a pool of threads", code: "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as p: result = " +
		"list(p.map(lambda x: x + 1, [1, 2]))", want: value(`[2,3]`)},
	{name: "a thread", code: "import threading, queue\nq = queue.Queue()\nt = threading.Thread(target=lambda: q.put(1)); t.start(); " +
		"t.join()\nq.get()", want: value(`1`)},

	// checked builtins that do what they always do
	{name: "exec in the namespace", code: "exec('x = 1\\ndef f(): return x')\nf() + x", want: value(`2`)},
	{name: "exec in a dict", code: "d = {'y': 2}\nexec('z = y + 1', d)\nd['z']", want: value(`3`)},
	{name: "exec in two dicts", code: "d = {}\nexec('z = 1; import json\\nw = json.dumps(z)', {}, d)\nd['w']", want: value(`"1"`)},
	{name: "exec in a function", code: "def f():\n    a = 5\n    d = {}\n    exec('b = a + 1', {'a': a}, d)\n    return d['b'], eval('a " +
		"+ 1')\nf()", want: value(`[6,6]`)},
	{name: "eval", code: "x = 3\n[eval('x + 1'), eval(' y', {'y': 4}), eval('z', {}, {'z': 5}), eval(b'1')]", want: value(`[4,4,5,1]`)},
	{name: "eval by map", code: "list(map(eval, ['1', '2']))", want: value(`[1,2]`)},
	{name: "compile", code: "c = compile('x * 2', 'f', 'eval')\nx = 4\nr = eval(c)\nexec(compile('y = 1', 'f', 'exec'))\n[r, y]",
		want: value(`[8,1]`)},
	{name: "a wrong exec", code: "exec('x = (')", want: raised("SyntaxError", "never closed")},
	{name: "a wrong eval", code: "eval(1)", want: raised("TypeError", "must be a string")},
	{name: "code that does not parse", code: "x = (", want: raised("SyntaxError", "never closed")},
	{name: "a class in exec", code: "d = {}\nexec('class C:\\n    def __init__(self): self._x = 1\\nc = C()', d)\nhasattr(d['c'], '_x')",
		want: value(`true`)},
	{name: "a refusal that is caught", code: "try: exec('import os')\nexcept RestrictedError as e: result = str(e)[:37]",
		want: value(`"<string>, line 1: the module os is no"`)},
	{name: "a function of its own named like one that is not there", code: "def open(x): return x\nopen(1)", want: value(`1`)},
	{name: "from the future", code: "from __future__ import annotations\ndef f(x: nowhere) -> there: return x\nf(1)", want: value(`1`)},
}
