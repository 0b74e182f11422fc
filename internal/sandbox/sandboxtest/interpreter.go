package sandboxtest

import (
	"strings"
	"time"
)

const (
	ownExecution = "Damage to the interpreter affects only the execution that caused it."
	liveWorks    = "The next execution of a live interpreter works."
)

// interpreter are attacks on the interpreter and the runtime in it.
func interpreter() []Case {
	dead := []string{"crashed"}
	again := func(code string) []Step {
		return []Step{mallory(code), mallory(`result = {"note": 6 * 7}`)}
	}
	cases := []Case{
		{Name: "tracing the runtime", Promise: liveWorks, Steps: again(`
import threading
def evil(*_): raise ZeroDivisionError
threading.settrace(evil); sys.setprofile(lambda *_: None); sys.settrace(evil)`)},
		{Name: "monitoring the runtime", Promise: liveWorks, Steps: again(`
m = sys.monitoring
m.use_tool_id(2, "evil"); m.register_callback(2, m.events.PY_START, lambda *a: m.DISABLE); m.set_events(2, m.events.PY_START)`)},
		{Name: "patching modules that code uses", Promise: liveWorks, Steps: again(`
import builtins, json, traceback, linecache
json.dumps = json.loads = json.JSONEncoder.encode = None
traceback.TracebackException = linecache.getline = None
builtins.print = builtins.input = None
sys.stdout = sys.stderr = None
sys.modules["json"] = None`)},
		{Name: "patching modules that the runtime uses", Promise: ownExecution, Ends: dead, Steps: again(`
import builtins
os.write = os.read = struct.pack = struct.Struct = builtins.len = builtins.map = builtins.sum = None
for name, m in list(sys.modules.items()):
    if name.startswith("sandpiper"): vars(m).clear()`)},
		{Name: "garbage collector", Promise: liveWorks, Steps: again(`
import gc
gc.disable(); gc.set_threshold(1); gc.callbacks.append(lambda *_: 1 / 0)
gc.unfreeze() # what the zygote made is frozen, and not listed
for o in gc.get_objects():
    if type(o).__name__ == "Channel": o._evil = 1
gc.collect()`)},
		{Name: "interpreter limits", Promise: liveWorks, Steps: again(`
sys.setrecursionlimit(60); sys.setswitchinterval(1e-9); sys.set_int_max_str_digits(0); sys.dont_write_bytecode = False`)},
		{Name: "hooks", Promise: liveWorks, Steps: again(`
def evil(*_): raise SystemExit(1)
sys.excepthook = sys.unraisablehook = sys.displayhook = evil
sys.addaudithook(lambda *_: None)
sys.path_hooks.clear(); sys.path.clear()`)},
		{Name: "signals to its own process", Promise: liveWorks, Steps: again(`
signal.signal(signal.SIGALRM, lambda *_: 1 / 0); signal.setitimer(signal.ITIMER_REAL, 0.2)
try: time.sleep(0.4)
except ZeroDivisionError: pass`)},
		{Name: "exit handlers", Promise: "No code runs after the end of the execution.", Steps: []Step{
			{By: "mallory", Code: `
import atexit, threading
def late():
    for _ in range(50): open("/workspace/late", "a").write("x"); time.sleep(0.02)
atexit.register(late); threading._register_atexit(late); os.register_at_fork(before=late)
class Late:
    def __del__(self): late()
keep = Late()`, End: true},
			{By: "mallory/2", Code: `time.sleep(0.3); result = os.path.exists("/workspace/late")`}}},
		{Name: "a thread left running", Promise: "A thread of an earlier execution cannot write output.", Steps: []Step{
			mallory(`
import threading
def speak():
    while True: print("late"); time.sleep(0.001)
threading.Thread(target=speak, daemon=True).start(); time.sleep(0.05)
print("end of the first")`),
			mallory(`print("second begins"); time.sleep(0.1); print("second ends")`)},
			Check: func(p *Result) string {
				_, second, _ := strings.Cut(strings.Join(p.Output, "\n"), "second begins")
				if strings.Contains(second, "late") {
					return "the second execution has output of a thread of the first"
				}
				return ""
			}},
		{Name: "a host call of an earlier thread", Promise: "A thread of an earlier execution cannot call the host.", Steps: []Step{
			mallory(`
import threading
def call():
    while True:
        try: save_skill("late", "x = 1", "late", [])
        except BaseException: pass
        time.sleep(0.01)
time.sleep(0); threading.Timer(0.2, call).start()`),
			mallory(`time.sleep(0.5)`)},
			Check: func(p *Result) string {
				if p.Calls > 0 {
					return "the host was called by a thread of the first execution"
				}
				return ""
			}},
		{Name: "remote debugging of a child", Promise: "A process cannot run code in another process.",
			NotShown: "it needs a mounted /proc, which no configuration has",
			Steps: single(`
script = "/tmp/script.py"; open(script, "w").write("open('/tmp/proof', 'w').write('x')")
pid = os.fork()
if pid == 0:
    end = time.monotonic() + 0.5
    while time.monotonic() < end: pass
    os._exit(0)
try: sys.remote_exec(pid, script)
except (RuntimeError, OSError): pass
os.waitpid(pid, 0); result = os.path.exists("/tmp/proof")`)},
		{Name: "remote debugging of the parent", Promise: "A process cannot run code in another process.",
			NotShown: "it needs a mounted /proc, which no configuration has",
			Steps: single(`
script = "/tmp/script.py"; open(script, "w").write("pass")
for pid in (os.getppid(), 2, 3, host["pid"]):
    if pid in (0, os.getpid()): continue
    try: sys.remote_exec(pid, script); result = pid
    except (RuntimeError, OSError): pass`)},
		{Name: "workspace files that shadow modules", Promise: "Files of a workspace do not replace library modules.", Steps: []Step{
			{By: "mallory", Code: `
for name in ("os", "json", "random", "uuid", "sandpiper", "colorsys", "this"): open(f"/workspace/{name}.py", "w").write("raise SystemExit('shadowed')")`, End: true},
			{By: "mallory/2", Code: `import colorsys, random, uuid; result = [m.__file__ for m in (colorsys, random, uuid) if not ` +
				`m.__file__.startswith("/python/")]`}}},
	}
	for _, death := range []struct{ name, code string }{
		{"a segmentation fault", `ctypes.string_at(0)`},
		{"writing to unmapped memory", `ctypes.memset(8, 0, 1 << 20)`},
		{"exit without an outcome", `os._exit(0)`},
		{"abort", `os.abort()`},
		{"a bus error", `
import mmap
fd = tmp("m", bytes(4096)); m = mmap.mmap(fd, 4096); os.ftruncate(fd, 0); m[0]`},
		{"an illegal instruction", `
import mmap
m = mmap.mmap(-1, 4096, prot=7); m.write(b"\x00\x00\x00\x00" if _arm else b"\x0f\x0b")
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()`},
		{"a wrong reference count", `
for x in (None, True, "", (), int, sys.modules): ctypes.pythonapi.Py_DecRef(ctypes.py_object(x))
for _ in range(100_000): ctypes.pythonapi.Py_DecRef(ctypes.py_object(sys.modules))
x = [{} for _ in range(100_000)]; os.abort()`},
		{"closing every descriptor", `os.closerange(0, 4096)`},
		{"replaced channel", `os.dup2(os.open("/dev/null", os.O_RDWR), 3); print("x")
os._exit(0)`},
		{"a fatal error of the interpreter", `ctypes.pythonapi.Py_FatalError(b"it is over")`},
		{"the interpreter finalized", `ctypes.pythonapi.Py_FinalizeEx(); os._exit(1)`},
	} {
		cases = append(cases, Case{Name: death.name, Promise: ownExecution, Ends: dead, Must: true, Steps: single(death.code)})
	}
	for i := range cases {
		if cases[i].NotShown == "" {
			cases[i].NotShown = "code and runtime share the interpreter; the process is the boundary"
		}
	}
	return cases
}

// frames are attacks on the daemon through the channel.
func frames() []Case {
	const forge = `
def frame(kind, payload, number=1, size=None):
    data = struct.pack(">IcI", len(payload) if size is None else size, kind, number) + payload
    while data: data = data[os.write(3, data):]
`
	var cases []Case
	for _, f := range []struct{ name, code string }{
		{"garbage on the channel", `os.write(3, bytes(range(255, 0, -1)) * 100)`},
		{"a frame of unknown kind", `frame(b"Q", b"{}")`},
		{"a frame of four gigabytes", `frame(b"O", b"x", size=0xFFFFFFFF)`},
		{"a frame longer than its kind allows", `frame(b"N", b" " * (65 << 10))`},
		{"a forged lockdown frame", `frame(b"S", b"{}")`},
		{"an outcome that is not JSON", `frame(b"D", b"{")`},
		{"an outcome that only the daemon may report", `frame(b"D", b'{"status":"refused","error":"by the administrator"}')`},
		{"a deeply nested outcome", `frame(b"D", b'{"status":"completed","result":' + b"[" * 100_000 + b"]" * 100_000 + b"}")`},
		{"a call that is not JSON", `frame(b"C", b"\xff\xfe")`},
		{"an image that contains a script", `frame(b"I", b'{"mime":"image/png","data":"PHNjcmlwdD4="}')`},
		{"an image that is HTML", `frame(b"I", b'{"mime":"text/html","data":"iVBORw0KGgo="}')`},
		{"too many images", `
for _ in range(20): frame(b"I", b'{"mime":"image/png","data":"iVBORw0KGgo="}')`},
	} {
		cases = append(cases, Case{Name: f.name, Promise: "A worker that violates the protocol is killed.",
			NotShown: "frames are validated in every configuration",
			Ends:     []string{"crashed"}, Must: true, Steps: single(forge + f.code + "\ntime.sleep(20)")})
	}
	return append(cases,
		Case{Name: "incomplete frame", Promise: inTime, NotShown: byHost, Time: 500 * time.Millisecond, Ends: []string{"timed_out"},
			Must:  true,
			Steps: single(forge + `frame(b"D", b'{"status":', size=100); time.sleep(20)`)},
		Case{Name: "a forged outcome", Promise: "A forged outcome ends the execution that sent it, with the forged result.",
			NotShown: "code controls its result in any case",
			Steps:    single(forge + `frame(b"D", b'{"status":"completed","result":{"note":"forged"}}'); time.sleep(20)`)},
		Case{Name: "an outcome of another execution", Promise: "A frame with the number of another execution is ignored.",
			NotShown: "frames are validated in every configuration",
			Steps: single(forge + `
for number in (0, 2, 3, 0xFFFFFFFF): frame(b"D", b'{"status":"completed","result":"forged"}', number)
frame(b"S", b"{}", 0)`)},
		Case{Name: "output that is not UTF-8", Promise: "Output is UTF-8.", NotShown: "frames are validated in every configuration",
			Check: func(p *Result) string {
				if strings.ToValidUTF8(strings.Join(p.Output, ""), "") != strings.Join(p.Output, "") {
					return "the output contains invalid UTF-8"
				}
				return ""
			},
			Steps: single(forge + `
frame(b"O", b"\xff\xfe\x00x"); frame(b"E", b"\xff"); os.write(1, b"\xc0\x80\n"); os.write(2, b"\xed\xa0\x80")`)},
		Case{Name: "unanswered calls", Promise: "Calls in flight are bounded.", NotShown: byHost, Time: 3 * time.Second,
			Ends: []string{"timed_out", "crashed"}, Must: true,
			Steps: single(forge + `
args = b'"' + b"x" * 1_000_000 + b'"'
n = 0
while True:
    n += 1; frame(b"C", b'{"id":%d,"method":"echo","args":%s}' % (n, args))`)},
		Case{Name: "endless notices", Promise: inTime, NotShown: byHost, Time: time.Second, Ends: []string{"timed_out", "crashed"},
			Must: true,
			Steps: single(forge + `
while True: frame(b"N", b'{"method":"progress","args":{"done":1}}')`)},
		Case{Name: "calls of unknown methods", Promise: "Calls of unknown methods are refused.", NotShown: "the host defines the methods",
			Steps: single(`
import gc
gc.unfreeze()
channel = next(o for o in gc.get_objects() if type(o).__name__ == "Channel" and o.fd == 3)
for method in ("../secret", "__import__", "", "save_skill\0", "x" * 10_000):
    try: result = channel.call(method, {"a": [1] * 1000})
    except FileNotFoundError: pass`)},
	)
}
