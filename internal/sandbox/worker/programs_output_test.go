//go:build linux

package worker_test

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

var outputs = []program{
	{"one item per print", "print('a'); print('b', 'c', sep='-')", "", printed("a", "b-c")},
	{"an empty print", "print()", "", printed("")},
	{"print without an end", "print('a', end=''); print('b')", "", printed("a", "b")},
	{"print of several lines", "print('a\\nb')", "", printed("a\nb")},
	{"print that ends with a newline of its own", "print('a\\n')", "", printed("a\n")},
	{"print with flush and None", "print('a', sep=None, end=None, file=None, flush=True)", "", printed("a")},
	{"print of any object", "print([1, 'a'], None, 1.5)", "", printed("[1, 'a'] None 1.5")},
	{"print with a wrong end", "print('a', end=5)", "", raised("TypeError", "sep and end must be None or a string", `print('a', end=5)`,
		"!output.py")},
	{"print of a lone surrogate", "print('a\\ud800b')", "", printed(`a\ud800b`)},
	{"write is cut into lines", "import sys\nsys.stdout.write('a\\nb'); sys.stdout.write('c\\n\\nd')", "",
		want{Result: "4", Output: []string{"a", "bc", "", "d"}}},
	{"a line begun by write ends at a print", "import sys\nsys.stdout.write('a')\nprint('b')", "", printed("a", "b")},
	{"write of bytes", "import sys\nx = sys.stdout.buffer.write('é\\n'.encode())", "", printed("é")},
	{"a character in two halves", "import sys\nb = 'é'.encode()\nx = sys.stdout.buffer.write(b[:1]); x = sys.stdout.buffer.write(b[1:])",
		"", printed("é")},
	{"print to stderr", "import sys\nprint('no', file=sys.stderr)\nsys.stderr.write('such thing')\nNone", "",
		want{Stderr: []string{"no\nsuch thing"}}},
	{"print to a file", "import io\nf = io.StringIO()\nprint('x', file=f)\nf.getvalue()", "", value(`"x\n"`)},
	{"redirect_stdout", "import contextlib, io\nf = io.StringIO()\nwith contextlib.redirect_stdout(f):\n    " +
		"print('x')\nprint('y')\nf.getvalue()", "",
		want{Result: `"x\n"`, Output: []string{"y"}}},
	{"closing stdout", "import sys\nsys.stdout.close()\nprint('still')", "", printed("still")},
	{"stdout is asked what it is", "import sys\n[sys.stdout.encoding, sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.writable(), " +
		"sys.__stdout__ is sys.stdout]", "",
		value(`["utf-8",false,1,true,true]`)},
	{"stdout replaced by user code", "import sys, io\nsys.stdout = io.StringIO()\nprint('hidden')\nresult = sys.stdout.getvalue()", "",
		value(`"hidden\n"`)},
	{"print replaced by user code", "import builtins\nbuiltins.print = lambda *a: 5\nprint('x')", "", value(`5`)},
	{"logging goes to stderr", "import logging\nlogging.warning('careful')", "", want{Stderr: []string{"WARNING:root:careful"}}},
	{"input", "input('name?')", "", raised("EOFError", "input() is not available: pass values as context_vars")},
	{"stdin is empty", "import sys\nsys.stdin.read()", "", value(`""`)},
	{"a child process writes", "import os\nos.system('echo one; echo two >&2') and None\nNone", "",
		want{Output: []string{"one"}, Stderr: []string{"two"}}},
	{"subprocess with our stdout", "import subprocess, sys\nsubprocess.run(['echo', 'hi'], stdout=sys.stdout, check=True)\nNone", "",
		printed("hi")},
	{"writing to descriptor 1", "import os\nos.write(1, b'a\\nb')\nNone", "", printed("a", "b")},
	{"writing bytes that are no text", "import os\nos.write(1, b'\\xff\\n')\nNone", "", printed("\uFFFD")},
	{"a forked child prints", "import os\npid = os.fork()\nif pid == 0:\n    print('child')\n    os._exit(0)\nos.waitpid(pid, 0)\nNone", "",
		printed("child")},
	{"a forked child runs on to the end", "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nresult = pid > 0", "", value(`true`)},
	{"a forked child raises", "import os\npid = os.fork()\nif not pid: 1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "",
		want{Result: "1", Stderr: []string{"ZeroDivisionError", "!runtime.py"}}},
	{"a forked child calls the host", "import os\npid = os.fork()\nif pid == 0:\n    try: list_skills()\n    except RuntimeError as e: " +
		"print(e)\n    os._exit(0)\nos.waitpid(pid, 0)\nNone", "",
		printed("list_skills works only in the process that runs the code, not in a forked one")},
	{"multiprocessing forks", "import multiprocessing\nwith multiprocessing.Pool(2) as p:\n    result = p.map(abs, [-1, " +
		"-2])\n[multiprocessing.get_start_method()]", "", value(`[1,2]`)},
	{"a process pool runs functions of the code", "from concurrent.futures import ProcessPoolExecutor\ndef f(x): return x * x\nwith " +
		"ProcessPoolExecutor(2) as p:\n    result = list(p.map(f, [2, 3]))", "", value(`[4,9]`)},
	{"a thread prints", "import threading\nt = threading.Thread(target=print, args=('thread',))\nt.start(); t.join()", "",
		printed("thread")},
	{"a thread fails", "import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start(); t.join()", "",
		want{Stderr: []string{"ZeroDivisionError", "!runtime.py"}}},
	{"an item beyond the longest", "print('x' * (2**20) + 'yz'); print('a' * 2**20 + '\\nb', end='')", "",
		printed(strings.Repeat("x", 1<<20), "yz", strings.Repeat("a", 1<<20), "\nb")},
	{"a long item is not cut in a character", "print('é' * 2**19 + 'x' + 'é' * 2**19)", "",
		printed(strings.Repeat("é", 1<<19), "x"+strings.Repeat("é", 1<<19-1), "é")},
	{"signal handlers may print", "import signal, os\nsignal.signal(signal.SIGUSR1, lambda *a: print('got it'))\nos.kill(os.getpid(), " +
		"signal.SIGUSR1)\nprint('done')", "", printed("got it", "done")},
}

var raisings = []program{
	{"an exception", "def f(x):\n    return 1 / x\n\nf(0)", "", raised("ZeroDivisionError", "division by zero",
		"Traceback (most recent call last):\n  File \"<code>\", line 4, in <module>\n    f(0)\n    ~^^^\n  File \"<code>\", line 2, in "+
			"f\n    return 1 / x\n           ~~^~~\nZeroDivisionError: division by zero", "!runtime")},
	{"an exception of the user's", "class Oops(Exception): pass\nraise Oops('because')", "", raised("Oops", "because", "Oops: because")},
	{"an exception without a message", "raise ValueError", "", raised("ValueError", "ValueError")},
	{"KeyError", "{}['k']", "", raised("KeyError", "'k'")},
	{"ImportError with a suggestion", "from json import dmps", "",
		raised("ImportError", "cannot import name 'dmps' from 'json'", "Did you mean: 'dumps'?")},
	{"NameError with a suggestion", "lenght = 1\nlength", "",
		raised("NameError", "name 'length' is not defined", "Did you mean: 'lenght'?")},
	{"through the library", "json.loads('{')", "", raised("JSONDecodeError", "Expecting property name", `File "<code>", line 1`,
		`File "json/decoder.py"`, "!/lib/python3")},
	{"a chain", "try: 1/0\nexcept Exception as e: raise ValueError('second') from e", "",
		raised("ValueError", "second", "ZeroDivisionError", "direct cause", "second")},
	{"a context", "try: 1/0\nexcept Exception: {}['k']", "", raised("KeyError", "'k'", "During handling of the above exception")},
	{"a group", "raise ExceptionGroup('many', [ValueError('a'), TypeError('b')])", "",
		raised("ExceptionGroup", "many (2 sub-exceptions)", "ValueError: a", "TypeError: b", "!runtime.py")},
	{"notes", "e = ValueError('x'); e.add_note('look here')\nraise e", "", raised("ValueError", "x", "look here")},
	{"recursion", "def f(n): return f(n + 1)\nf(0)", "", raised("RecursionError", "maximum recursion depth exceeded", "more calls …",
		"Previous line repeated")},
	{"recursion of two", "def f(n): return g(n + 1)\ndef g(n): return f(n + 1)\nf(0)", "",
		raised("RecursionError", "maximum recursion depth", "more calls …")},
	{"recursion far beyond the limit", "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return f(n + 1) if n < 200000 else 1/0\nf(0)",
		"", raised("ZeroDivisionError", "division by zero", "more calls …")},
	{"a message of a megabyte", "raise ValueError('x' * 10**6)", "",
		raised("ValueError", strings.Repeat("x", 2000)+"… (1000000 characters)", "left out …")},
	{"a str that raises", "class E(Exception):\n    def __str__(self): 1/0\nraise E", "",
		raised("E", "<E that cannot be printed>", "E: <exception str() failed>")},
	{"a str that exits", "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E", "",
		raised("E", "<E that cannot be printed>")},
	{"a lone surrogate in the message", "raise ValueError('\\ud800')", "", raised("ValueError", "\uFFFD")},
	{"sys.exit with a message", "import sys; sys.exit('bad input')", "", raised("SystemExit", "bad input")},
	{"sys.exit with a status", "import sys; sys.exit(3)", "", raised("SystemExit", "the code exited with status 3")},
	{"KeyboardInterrupt", "raise KeyboardInterrupt", "", raised("KeyboardInterrupt", "the code was interrupted")},
	{"GeneratorExit", "raise GeneratorExit", "", raised("GeneratorExit", "GeneratorExit")},
	{"CancelledError", "import asyncio\nraise asyncio.CancelledError", "", raised("CancelledError", "CancelledError")},
	{"in a coroutine", "import asyncio\nasync def f(): 1/0\nawait f()", "",
		raised("ZeroDivisionError", "division by zero", "in f", "!asyncio/")},
	{"in a task", "import asyncio\nasync def f(): 1/0\nasync with asyncio.TaskGroup() as g:\n    g.create_task(f())", "",
		raised("ExceptionGroup", "unhandled errors in a TaskGroup", "ZeroDivisionError")},
	{"in a helper", "read_file('nope.txt')", "", raised("FileNotFoundError", "File not found: nope.txt", "read_file('nope.txt')",
		"!files.py")},
	{"in exec", "exec('x = 1\\n1/0')", "", raised("ZeroDivisionError", "division by zero", `File "<string>", line 2`)},
	{"AssertionError", "assert 1 == 2, 'no'", "", raised("AssertionError", "no")},
	{"StopIteration", "next(iter([]))", "", raised("StopIteration", "StopIteration")},
	{"the stack is left as it was", "import sys\nsys.settrace(lambda *a: None)\nsys.setrecursionlimit(100)\n1/0", "",
		raised("ZeroDivisionError", "division by zero")},

	{"memory by one allocation", "bytearray(10**13)", "", limited("MemoryError", "the code ran out of memory", sandbox.LimitMemory)},
	{"memory bit by bit", limitMemory + "x = []\nwhile True: x.append(bytearray(10**6))", "",
		limited("MemoryError", "the code ran out of memory", sandbox.LimitMemory)},
	{"memory by small things", limitMemory + "x = []\nwhile True: x.append([x])", "",
		limited("MemoryError", "the code ran out of memory", sandbox.LimitMemory)},
	{"memory in a deep function", limitMemory + "def f(n):\n    x = list(range(10**5))\n    return f(n + 1)\nimport " +
		"sys\nsys.setrecursionlimit(10**6)\nf(0)", "", limited("MemoryError", "the code ran out of memory", sandbox.LimitMemory)},
	{"a result that does not fit the memory", limitMemory + "[['x' * 1000] * 1000] * 1000", "",
		limited("ResultTooLarge", "the result is more than 1048576 bytes", sandbox.LimitResult)},
	{"a text that does not fit the memory twice", limitMemory + "'x' * (40 << 20)", "",
		limited("ResultTooLarge", "the result is more JSON than the memory holds", sandbox.LimitResult)},
	{"open files", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\nf = []\nwhile True: f.append(open('/dev/null'))",
		"", limited("OSError", "Too many open files", sandbox.LimitOpenFiles)},
	{"file size", "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\nwrite_file('f', 'x' * 2000)", "",
		limited("OSError", "File too large", sandbox.LimitFileSize)},
	{"disk full", "raise OSError(28, 'No space left on device')", "", limited("OSError", "No space left", sandbox.LimitDisk)},
	{"threads", "raise RuntimeError(\"can't start new thread\")", "",
		limited("RuntimeError", "can't start new thread", sandbox.LimitProcesses)},
	{"processes", "def fork(): raise BlockingIOError(11, 'Resource temporarily unavailable')\ndef f(): fork()\ndef g():\n    import os\n " +
		"   os.fork = fork\n    raise BlockingIOError(11, 'Resource temporarily unavailable')\ng()", "",
		limited("BlockingIOError", "Resource temporarily unavailable", sandbox.LimitProcesses)},
	{"EAGAIN that is no fork", "import socket\na, b = socket.socketpair()\na.setblocking(False)\na.recv(1)", "",
		raised("BlockingIOError", "Resource temporarily unavailable")},
	{"a limit behind a cause", "try: raise OSError(24, 'Too many open files')\nexcept OSError as e: raise ValueError('wrapped') from e", "",
		limited("ValueError", "wrapped", sandbox.LimitOpenFiles)},

	{"os._exit", "import os\nprint('before')\nos._exit(3)", "",
		want{Status: sandbox.Crashed, ErrorType: "crashed", Output: []string{"before"}}},
	{"a signal", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "", want{Status: sandbox.Crashed, ErrorType: "crashed"}},
	{"a crash says its last words", "import faulthandler\nfaulthandler._sigabrt()", "",
		want{Status: sandbox.Crashed, ErrorType: "crashed", Stderr: []string{"Fatal Python error: Aborted"}}},
	{"closing all descriptors", "import os\nos.closerange(3, 100)", "", want{Status: sandbox.Crashed, ErrorType: "crashed"}},
	{"threads left running", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n5", "", value(`5`)},
	{"atexit is not awaited", "import atexit, time\natexit.register(time.sleep, 60)\n5", "", value(`5`)},
}

func limited(kind, message, limit string) want {
	return want{Status: sandbox.Raised, ErrorType: kind, Error: message, Limit: limit}
}

// limitMemory leaves the process 64 MiB more than it has.
const limitMemory = `import resource
_has = int(open('/proc/self/statm').read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (_has + (64 << 20),) * 2)
`

var sources = []program{
	{"a syntax error", "x = 1\nif x\n    y", "", raised("SyntaxError", "expected ':' (<code>, line 2)",
		"File \"<code>\", line 2\n    if x\n        ^", "!runtime.py")},
	{"an indentation error", "  x = 1", "", raised("IndentationError", "unexpected indent")},
	{"a NUL", "x = 1\x00", "", raised("SyntaxError", "null bytes")},
	{"a byte order mark", "\ufeff1 + 1", "", value(`2`)},
	{"CRLF", "x = '''a\r\nb'''\r\nx\r\n", "", value(`"a\nb"`)},
	{"an error in parallel shows the code's frames only", "def f():\n    return 1/0\nparallel(f, lambda: 1)", "",
		raised("ZeroDivisionError", "division", "line 3, in <module>", "line 2, in f\n    return 1/0\n", "!concurrent", "!servers.py")},
	{"an error in threads of the code's own shows the library",
		"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n    pool.submit(lambda: 1/0).result()", "",
		raised("ZeroDivisionError", "division", "line 3, in <module>", "concurrent/futures/thread.py", "line 3, in <lambda>\n")},
	{"CRLF in a traceback", "x = 1\r\n1/0\r\n", "", raised("ZeroDivisionError", "division", "line 2, in <module>\n    1/0\n")},
	{"a form feed does not count as a line", "x = '\x0c'\n1/0", "",
		raised("ZeroDivisionError", "division", "line 2, in <module>\n    1/0\n")},
	{"bytes that are no UTF-8", "'\xff'", "", value("\"\uFFFD\"")},
	{"identifiers of all languages", "größe = 3\ngröße", "", value(`3`)},
	{"one long line", "x = [" + strings.Repeat("1,", 100000) + "]\nlen(x)", "", value(`100000`)},
	{"nested too deeply", strings.Repeat("(", 5000) + strings.Repeat(")", 5000), "", raised("SyntaxError", "too")},
	{"a sum of 10,000 terms", "1" + strings.Repeat("+1", 9999), "", value(`10000`)},
	{"await outside of async", "def f():\n    await g()", "", raised("SyntaxError", "'await' outside async function")},
	{"return outside of a function", "return 5", "", raised("SyntaxError", "'return' outside function")},
	{"future imports", "from __future__ import annotations\ndef f(x: Undefined): pass\nf.__annotations__", "", value(`{"x":"Undefined"}`)},
	{"a warning of the compiler", "x = '\\d'", "", want{Stderr: []string{"<code>:1: SyntaxWarning"}}},
}
