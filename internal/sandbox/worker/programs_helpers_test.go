//go:build linux

package worker_test

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// png is a Python expression for bytes with the signature of a PNG image.
const png = `PNG = b'\x89PNG\r\n\x1a\n' + b'x' * 20
`

// helped is Python that reads what help printed.
const helped = `import io, sys
sys.stdout = io.StringIO()
told = lambda: sys.stdout.getvalue()
`

var helpers = []program{
	{"write_file says how many bytes", "write_file('a.txt', 'é')", "", value(`"Written 2 bytes to a.txt"`)},
	{"write and read", "write_file('d/e/a.txt', 'x\\r\\ny')\n[read_file('d/e/a.txt'), read_file(workspace + '/d/e/a.txt')]", "",
		value(`["x\r\ny","x\r\ny"]`)},
	{"bytes", "write_file('a', b'\\xff')\nlist(read_file('a', binary=True))", "", value(`[255]`)},
	{"text that is none", "write_file('a', b'ab\\xff')\nread_file('a')", "",
		raised("ValueError", "a is not UTF-8 text (byte 2): use read_file('a', binary=True)")},
	{"a byte order mark in a file", "write_file('a', b'\\xef\\xbb\\xbf{}')\njson.loads(read_file('a'))", "", value(`{}`)},
	{"no such file", "read_file('x')", "", raised("FileNotFoundError", "File not found: x")},
	{"a directory", "write_file('d/x', '')\nread_file('d')", "", raised("IsADirectoryError", "d is a directory: use list_files('d')")},
	{"a FIFO", "import os\nos.mkfifo('f')\nread_file('f')", "", raised("ValueError", "f is not a regular file")},
	{"outside", "read_file('../x')", "", raised("PermissionError", "Access denied: path outside workspace: '../x'")},
	{"outside by an absolute path", "write_file('/etc/x', '')", "",
		raised("PermissionError", "Access denied: path outside workspace: '/etc/x'")},
	{"outside by a link", "import os\nos.symlink('/etc', 'l')\nread_file('l/passwd')", "",
		raised("PermissionError", "Access denied: path outside workspace: 'l/passwd'")},
	{"a sibling with the same beginning", "read_file(workspace + '2/x')", "", raised("PermissionError", "Access denied")},
	{"writing over a directory", "import os\nos.mkdir('d')\nwrite_file('d', '')", "",
		raised("IsADirectoryError", "d is a directory: name a file")},
	{"writing what is no text", "write_file('a', {'x': 1})", "",
		raised("TypeError", "write_file takes str or bytes, got dict: use json.dumps(content)")},
	{"an empty name", "read_file('')", "", raised("ValueError", "'' is not a file name")},
	{"a NUL in a name", "read_file('a\\0b')", "", raised("ValueError", `'a\x00b' is not a file name`)},
	{"a name that is too long", "write_file('x' * 300, '')", "", raised("OSError", "File name too long")},
	{"the longest name", "write_file('x' * 255, 'y')\nread_file('x' * 255)", "", value(`"y"`)},
	{"no temporary file is left", "import os\nwrite_file('a', '1'); write_file('a', '2')\n[os.listdir('.'), read_file('a')]", "",
		value(`[["a"],"2"]`)},
	{"list_files", "write_file('b', ''); write_file('a/c', ''); write_file('skills/s.py', ''); write_file('a/skills/x', " +
		"'')\n[list_files(), list_files('a'), list_files('skills'), list_files('b')]", "",
		value(`[["a/c","a/skills/x","b"],["a/c","a/skills/x"],["skills/s.py"],["b"]]`)},
	{"list_files of nothing", "list_files('nope')", "", value(`[]`)},
	{"list_files leaves out what is no file", "import os\nos.mkfifo('f'); os.symlink('/etc/passwd', 'l')\nlist_files()", "", value(`[]`)},
	{"delete_file", "write_file('a', '')\n[delete_file('a'), list_files()]", "", value(`["Deleted a",[]]`)},
	{"list_files without .results", "write_file('.results/x', '')\nwrite_file('a', '')\n[list_files(), list_files('.results')]", "",
		value(`[["a"],[".results/x"]]`)},
	{"delete_file of nothing", "delete_file('a')", "", raised("FileNotFoundError", "File not found: a")},
	{"delete_file of a directory", "write_file('d/x', '')\ndelete_file('d')", "", raised("IsADirectoryError", "d is a directory")},
	{"delete_file of an empty directory", "import os\nos.mkdir('d')\n[delete_file('d'), os.path.exists('d')]", "",
		value(`["Deleted d",false]`)},
	{"delete_file deletes the link", "import os\nos.symlink('/etc/passwd', 'l')\ndelete_file('l')\nos.path.exists('/etc/passwd')", "",
		value(`true`)},
	{"open patched by user code", "import builtins\nbuiltins.open = None\nwrite_file('a', 'x')\nread_file('a')", "", value(`"x"`)},
	{"the working directory", "import os\n[os.getcwd() == workspace, sorted(os.listdir())]", "", value(`[true,[]]`)},
	{"modules of the workspace", "write_file('convert.py', 'x = 5')\nimport convert\nconvert.x", "", value(`5`)},
	{"no bytecode is written", "write_file('m.py', '')\nimport m, os\nos.listdir()", "", value(`["m.py"]`)},

	{"the ready modules", "[json.dumps([1]), re.sub('a', 'b', 'a'), math.floor(1.5), statistics.mean([1, 3]), " +
		"collections.Counter('a')['a']]", "", value(`["[1]","b",1,2,1]`)},
	{"the ready classes", "[datetime.now() > datetime(2020, 1, 1), date(2024, 1, 31) + timedelta(days=1)]", "",
		value(`[true,"2024-02-01"]`)},
	{"help tells of everything ready", helped + "help()\n[n for n, v in globals().items() if callable(v) and v not in (help, told, " +
		"datetime, date, timedelta, ToolError, StateConflict, QuotaError) and f'\\n{n}(' not in told()]", "", value(`[]`)},
	{"help tells of one thing", helped + "help(list_files)\n'list_files(' in told() and 'workspace' in told()", "", value(`true`)},
	{"help is what it is of Python", helped + "help(str.upper)\n'uppercase' in told()", "", value(`true`)},
	{"what is not built does not exist", "[n for n in ('tokenize_pii', 'detokenize_pii') if n in globals()]", "", value(`[]`)},
	{"ask", "[ask('Which?'), ask('n?', {'type': 'integer'}), ask('no', schema=None)]", "", value(`["Which?",{"type":"integer"},null]`)},
	{"ask of no text", "ask(5)", "", raised("TypeError", "ask(question, schema): the question must be text, got int")},
	{"the namespace is __main__", "import sys\n[__name__, sys.modules['__main__'].__dict__ is globals()]", "", value(`["__main__",true]`)},
	{"pickle of a class of the code", "import pickle\nclass C: x = 1\npickle.loads(pickle.dumps(C())).x", "", value(`1`)},
	{"filter_by_field", "filter_by_field([{'a': 1, 'b': 2}, {'a': 2}, 5], 'a', 1)", "", value(`[{"a":1,"b":2}]`)},
	{"summarize_list", "[summarize_list(list(range(100))), summarize_list((i for i in 'abc'), limit=2), summarize_list([])]", "",
		value(`[{"count":100,"sample":[0,1,2,3,4,5,6,7,8,9]},{"count":3,"sample":["a","b"]},{"count":0,"sample":[]}]`)},
	{"aggregate_stats", "aggregate_stats([{'v': 1, 'n': 'a', 't': True}, {'v': 3}, {'v': None}, {}])", "",
		value(`{"count":4,"v_sum":4,"v_avg":2.0,"v_min":1,"v_max":3}`)},
	{"aggregate_stats of named fields", "aggregate_stats([{'a': 1, 'b': 2}], ['b', 'c'])", "",
		value(`{"count":1,"b_sum":2,"b_avg":2.0,"b_min":2,"b_max":2}`)},
	{"aggregate_stats of nothing", "[aggregate_stats([]), aggregate_stats([1, 2])]", "", value(`[{"count":0},{"count":2}]`)},
	{"format_output", "[format_output({'a': date(2024, 1, 1)}), len(format_output('x' * 10000)), format_output('x' * 100, 60)]", "",
		value(`["{\n  \"a\": \"2024-01-01\"\n}",5000,"\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n… 102 characters in all"]`)},
	{"format_output of few characters", "[format_output('x' * 100, n) for n in (20, 2, 1, 0, -1)]", "",
		value(`["\"xxxxxxxxxxxxxxxxxx…","\"…","…","",""]`)},

	{"show bytes", png + "show(PNG); show(b'\\xff\\xd8\\xff.'); show(b'GIF89a.'); show(b'RIFF....WEBP')", "",
		want{Images: []string{"image/png", "image/jpeg", "image/gif", "image/webp"}}},
	{"show a file", png + "write_file('a.png', PNG)\nshow('a.png')", "", want{Images: []string{"image/png"}}},
	{"show a figure by its shape", png + "class F:\n    def savefig(self, f, **k): f.write(PNG)\nshow(F())", "",
		want{Images: []string{"image/png"}}},
	{"show a PIL image by its shape", png + "class I:\n    def getbbox(self): pass\n    def save(self, f, format): f.write(PNG)\nshow(I())",
		"", want{Images: []string{"image/png"}}},
	{"show what is no picture", "show(b'hello world')", "", raised("ValueError",
		"show: the bytes begin with b'hello wo'; PNG, JPEG, GIF and WebP are pictures")},
	{"show too large a picture", png + "show(PNG + bytes(5 << 20))", "",
		raised("ValueError", "show: the picture has 5242908 bytes, at most 5242880 are allowed")},
	{"show too many", png + "for _ in range(9): show(PNG)", "",
		want{Status: sandbox.Raised, ErrorType: "ValueError", Error: "show: at most 8 pictures per execution",
			Images: []string{"image/png", "image/png", "image/png", "image/png", "image/png", "image/png", "image/png", "image/png"}}},
	{"display shows each", png + "display(PNG, {'a': 1})", "", want{Output: []string{"{\n  \"a\": 1\n}"}, Images: []string{"image/png"}}},
	{"show a table", "show([{'name': 'a', 'n': 1}, {'name': 'long', 'n': 100}])", "", printed("name    n\na       1\nlong  100")},
	{"show anything else", "show({'a': 1})", "", printed("{\n  \"a\": 1\n}")},
	{"progress wants numbers", "progress('half')", "", raised("TypeError", "progress(done, total, message): a number is needed, got str")},
}

const highRisk = "def filter_high_risk(vulns): return [v for v in vulns if v['severity'] in ['high', 'critical']]"

// Both examples stand as they do in the first users' documentation.
var skillRows = []program{
	{"10,000 rows", `write_file("large_dataset.json", json.dumps([{'id': i, 'status': 'active' if i % 4 == 0 else 'idle'} for i in range(10000)]))
data = json.loads(read_file("large_dataset.json"))
filtered = [d for d in data if d['status'] == 'active']
result = {
    'total': len(data),
    'active': len(filtered),
    'sample': filtered[:5]
}
`, "", value(`{"total":10000,"active":2500,"sample":[{"id":0,"status":"active"},{"id":4,"status":"active"},{"id":8,"status":"active"},{"id":12,"status":"active"},{"id":16,"status":"active"}]}`)},
	{"a skill by exec", `save_skill(
    name="filter_high_risk",
    code="` + highRisk + `",
    description="Filter vulnerabilities to high/critical only"
)
write_file("scan_results.json", json.dumps([{'id': 1, 'severity': 'high'}, {'id': 2, 'severity': 'low'}]))
skill = load_skill("filter_high_risk")
exec(skill)
vulns = json.loads(read_file("scan_results.json"))
result = filter_high_risk(vulns)
`, "", value(`[{"id":1,"severity":"high"}]`)},
	{"saving says so", "save_skill('s', 'x = 1')", "", value(`"Skill 's' saved successfully"`)},
	{"listing", "save_skill('s', 'x = 1', tags=('a',))\nlist_skills()", "", value(`[{"name":"s"}]`)},
	{"from skills import", "save_skill('s', 'def s(x): return x + 1')\nfrom skills import s\n[s(1), type(s).__name__]", "",
		value(`[2,"function"]`)},
	{"import skills.s", "save_skill('s', 'def s(x): return x + 1\\ny = 5')\nimport skills.s\n[skills.s.y, skills.s.s(1), skills.s(2)]", "",
		value(`[5,2,3]`)},
	{"both", "save_skill('s', 'def s(): return 1\\ny = 5')\nimport skills.s\nfrom skills import s\ns()", "", value(`1`)},
	{"a skill without a function of its name", "save_skill('s', 'y = 5')\nfrom skills import s\ns.y", "", value(`5`)},
	{"a skill uses the ready globals", "save_skill('s', 'def s(): return json.dumps(list_files())')\nfrom skills import s\ns()", "",
		value(`"[]"`)},
	{"a skill imports a skill", "save_skill('a', 'def a(): return 1')\nsave_skill('b', 'from skills import a\\ndef b(): return a() + " +
		"1')\nfrom skills import b\nb()", "", value(`2`)},
	{"a skill saved again", "save_skill('s', 'def s(): return 1')\nfrom skills import s\nsave_skill('s', 'def s(): return 2')\nfrom " +
		"skills import s\ns()", "", value(`2`)},
	{"a skill that is not there", "from skills import nope", "", raised("ModuleNotFoundError", "Skill not found: nope")},
	{"loading one that is not there", "load_skill('nope')", "", raised("FileNotFoundError", "Skill not found: nope")},
	{"a skill that fails", "save_skill('s', 'def s():\\n    return 1/0')\nfrom skills import s\ns()", "",
		raised("ZeroDivisionError", "division", `File "<skill s>", line 2, in s`, "return 1/0", "!skills.py")},
	{"saving a state", "[save_state('s', {'at': date(2026, 1, 2), 'n': {1}}, version=2), get_state('s')]", "",
		value(`[3,{"name":"s","value":{"at":"2026-01-02","n":[1]},"version":2}]`)},
	{"a state of another version", "try: save_state('s', 1, version=1)\nexcept StateConflict as e: result = str(e)", "",
		value(`"it has version 2"`)},
	{"a state that is not there", "[get_state('none'), get_state('none', 5), get_state('none', 5, version=True)]", "",
		value(`[null,5,[5,0]]`)},
	{"a state that is not JSON", "save_state('s', object())", "", raised("TypeError", "object is not JSON")},
	{"searching", "search_skills('mean', tags=('csv',))", "", value(`{"query":"mean","tags":["csv"]}`)},
	{"an older version", "load_skill('s', 2)", "", raised("FileNotFoundError", "Skill not found: s")},
	{"a skill that does not compile", "save_skill('s', 'def')", "", raised("SyntaxError", "invalid syntax (<skill s>, line 1)")},
	{"a mounted skill is read from its file", "write_file('skills/s.py', 'def s(): return __file__ == workspace + " +
		"\"/skills/s.py\"')\nfrom skills import s\ns()", "", value(`true`)},
	{"a planted .pyc does not run", "import os, py_compile\nwrite_file('skills/s.py', 'def s(): return " +
		"666')\npy_compile.compile('skills/s.py', " +
		"invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\nwrite_file('skills/s.py', 'def s(): return 1')\nfrom skills " +
		"import s\n[os.path.isdir('skills/__pycache__'), s()]", "", value(`[true,1]`)},
	{"dir(skills)", "save_skill('b', ''); save_skill('a', '')\nimport skills\ndir(skills)", "", value(`["a","b"]`)},
	{"hasattr on the package", "import skills\nhasattr(skills, '__wrapped__')", "", value(`false`)},
	{"calling the host with what is wrong", call + "_call('fail', {'kind': 'invalid'})", "",
		raised("ValueError", `the name "a-b" is wrong: use letters`)},
	{"calling what is denied", call + "_call('fail', {'kind': 'denied'})", "", raised("PermissionError", "that is not allowed")},
	{"calling what is down", call + "_call('fail', {'kind': 'unavailable'})", "", raised("ConnectionError", "the server is down")},
	{"calling beyond a quota", call + "import pickle\ntry: _call('fail', {'kind': 'exhausted'})\nexcept RuntimeError as e: result = " +
		"[type(e) is QuotaError, e.quota, str(e), pickle.loads(pickle.dumps(e)).quota]", "",
		value(`[true,"tokens_per_day","the quota is used up","tokens_per_day"]`)},
	{"a quota that nobody catches", call + "_call('fail', {'kind': 'exhausted'})", "", raised("QuotaError", "the quota is used up")},
	{"an inner error shows nothing of itself", call + "_call('fail', {'kind': 'internal'})", "",
		raised("RuntimeError", "something went wrong inside Sandpiper", "!secret")},
	{"calls from many threads", call + "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(50) as p:\n    got = " +
		"list(p.map(lambda i: _call('echo', i), range(2000)))\ngot == list(range(2000))", "", value(`true`)},
	{"calls run beside each other", call + "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(20) as p:\n    " +
		"got = list(p.map(lambda i: _call('meet', {}), range(20)))\ngot", "", value(`[` + strings.Repeat("20,", 19) + `20]`)},
	{"arguments of a megabyte", call + "len(_call('echo', 'x' * 10**6))", "", value(`1000000`)},
	{"arguments that are too long", call + "_call('echo', 'x' * (17 << 20))", "", raised("ValueError", "the arguments of echo are")},
	{"large arguments from several threads", call + "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as " +
		"p:\n    got = list(p.map(lambda i: len(_call('echo', 'x' * (8 << 20))), range(8)))\nsum(got)", "", value(`67108864`)},
}

var surroundings = []program{
	{"json patched by user code", "json.dumps = json.loads = json.JSONEncoder.encode = json.JSONEncoder.default = None\n[1, " +
		"date(2024, 1, 1)]", "", value(`[1,"2024-01-01"]`)},
	{"os patched by user code", "import os\nos.write = os.read = os._exit = None\nprint('x')\n1", "",
		want{Result: "1", Output: []string{"x"}}},
	{"the traceback module patched", "import traceback\ntraceback.TracebackException = None\n1/0", "",
		raised("ZeroDivisionError", "division by zero", "ZeroDivisionError")},
	{"names of builtins used for variables", "list = str = len = dict = type = print = 5\n[list]", "", value(`[5]`)},
	{"sys.modules cleared", "import sys\nsys.modules.clear()\n1", "", value(`1`)},
	{"tracing left on", "import sys\nsys.settrace(lambda *a: 1/0)\nresult = 1", "", value(`1`)},
	{"the collector switched off", "import gc\ngc.disable(); gc.set_threshold(1)\n1", "", value(`1`)},
	{"no descriptor of ours is named", "import sys\nsys.argv", "", value(`[""]`)},
	{"what is warm", "import sys\n[m for m in ('csv', 'pathlib', 'decimal', 'asyncio', 'dataclasses', 'uuid', 'urllib.parse') if m not " +
		"in sys.modules]", "", value(`[]`)},
	{"what is not", "import sys\n[m for m in ('ctypes', 'ssl', 'sqlite3', 'xmlrpc', 'http.server') if m in sys.modules]", "", value(`[]`)},
	{"no thread is running", "import threading\nthreading.active_count()", "", value(`1`)},
	{"sleeping in an alarm", "import signal, time\ndef late(*a): raise TimeoutError('alarm')\nsignal.signal(signal.SIGALRM, " +
		"late)\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ntime.sleep(10)", "", raised("TimeoutError", "alarm")},
	{"an alarm during a call", call + "import signal\ndef late(*a): raise TimeoutError('alarm')\nsignal.signal(signal.SIGALRM, " +
		"late)\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ntry: _call('wait', {})\nexcept TimeoutError: print('late')\n_call('echo', 5)",
		"", want{Result: "5", Output: []string{"late"}}},
}
