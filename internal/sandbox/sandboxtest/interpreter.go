package sandboxtest

import (
	"strings"
	"time"
)

const (
	itself = "What code does to its interpreter costs its own execution alone."
	living = "The next execution of a living interpreter works."
)

// interpreter are attacks on the interpreter and the runtime in it.
func interpreter() []Case {
	dead := []string{"crashed"}
	again := func(code string) []Step {
		return []Step{mallory(code), mallory(`result = {"note": 6 * 7}`)}
	}
	cases := []Case{
		{Name: "tracing the runtime", Promise: living, Steps: again(`
import threading
def evil(*_): raise ZeroDivisionError
threading.settrace(evil); sys.setprofile(lambda *_: None); sys.settrace(evil)`)},
		{Name: "monitoring the runtime", Promise: living, Steps: again(`
m = sys.monitoring
m.use_tool_id(2, "evil"); m.register_callback(2, m.events.PY_START, lambda *a: m.DISABLE); m.set_events(2, m.events.PY_START)`)},
		{Name: "patching what code uses", Promise: living, Steps: again(`
import builtins, json, traceback, linecache
json.dumps = json.loads = json.JSONEncoder.encode = None
traceback.TracebackException = linecache.getline = None
builtins.print = builtins.input = None
sys.stdout = sys.stderr = None
sys.modules["json"] = None`)},
		{Name: "patching what the runtime uses", Promise: itself, Ends: dead, Steps: again(`
import builtins
os.write = os.read = struct.pack = struct.Struct = builtins.len = builtins.map = builtins.sum = None
for name, m in list(sys.modules.items()):
    if name.startswith("sandpiper"): vars(m).clear()`)},
		{Name: "the collector", Promise: living, Steps: again(`
import gc
gc.disable(); gc.set_threshold(1); gc.callbacks.append(lambda *_: 1 / 0)
for o in gc.get_objects():
    if type(o).__name__ == "Channel": o._evil = 1
gc.unfreeze(); gc.collect()`)},
		{Name: "limits of the interpreter", Promise: living, Steps: again(`
sys.setrecursionlimit(60); sys.setswitchinterval(1e-9); sys.set_int_max_str_digits(0); sys.dont_write_bytecode = False`)},
		{Name: "hooks", Promise: living, Steps: again(`
def evil(*_): raise SystemExit(1)
sys.excepthook = sys.unraisablehook = sys.displayhook = evil
sys.addaudithook(lambda *_: None)
sys.path_hooks.clear(); sys.path.clear()`)},
		{Name: "signals to oneself", Promise: living, Steps: again(`
signal.signal(signal.SIGALRM, lambda *_: 1 / 0); signal.setitimer(signal.ITIMER_REAL, 0.2)
try: time.sleep(0.4)
except ZeroDivisionError: pass`)},
		{Name: "at exit", Promise: "Nothing runs after the end.", Steps: []Step{
			{By: "mallory", Code: `
import atexit, threading
def late():
    for _ in range(50): open("/workspace/late", "a").write("x"); time.sleep(0.02)
atexit.register(late); threading._register_atexit(late); os.register_at_fork(before=late)
class Late:
    def __del__(self): late()
keep = Late()`, End: true},
			{By: "mallory/2", Code: `time.sleep(0.3); result = os.path.exists("/workspace/late")`}}},
		{Name: "a thread left running", Promise: "A thread of an earlier execution speaks no more.", Steps: []Step{
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
					return "output of the first execution's thread came in the second"
				}
				return ""
			}},
		{Name: "a thread that calls too late", Promise: "A thread of an earlier execution calls no more.", Steps: []Step{
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
		{Name: "remote debugging of a child", Promise: "No process runs code in another.", Unshown: "it needs a /proc that is its own, which no switch gives",
			Steps: alone(`
script = "/tmp/script.py"; open(script, "w").write("open('/tmp/proof', 'w').write('x')")
pid = os.fork()
if pid == 0:
    end = time.monotonic() + 0.5
    while time.monotonic() < end: pass
    os._exit(0)
try: sys.remote_exec(pid, script)
except (RuntimeError, OSError): pass
os.waitpid(pid, 0); result = os.path.exists("/tmp/proof")`)},
		{Name: "remote debugging of the parent", Promise: "No process runs code in another.", Unshown: "it needs a /proc that is its own, which no switch gives",
			Steps: alone(`
script = "/tmp/script.py"; open(script, "w").write("pass")
for pid in (os.getppid(), 2, 3, host["pid"]):
    if pid in (0, os.getpid()): continue
    try: sys.remote_exec(pid, script); result = pid
    except (RuntimeError, OSError): pass`)},
		{Name: "importing what the workspace shadows", Promise: "Files of a workspace do not stand in for the library.", Steps: []Step{
			{By: "mallory", Code: `
for name in ("os", "json", "random", "uuid", "sandpiper", "colorsys", "this"): open(f"/workspace/{name}.py", "w").write("raise SystemExit('shadowed')")`, End: true},
			{By: "mallory/2", Code: `import colorsys, random, uuid; result = [m.__file__ for m in (colorsys, random, uuid) if not m.__file__.startswith("/python/")]`}}},
	}
	for _, death := range []struct{ name, code string }{
		{"a segmentation fault", `ctypes.string_at(0)`},
		{"writing where nothing is", `ctypes.memset(8, 0, 1 << 20)`},
		{"exit without a word", `os._exit(0)`},
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
		{"another channel", `os.dup2(os.open("/dev/null", os.O_RDWR), 3); print("x")
os._exit(0)`},
		{"a fatal error of the interpreter", `ctypes.pythonapi.Py_FatalError(b"it is over")`},
		{"the interpreter finalized", `ctypes.pythonapi.Py_FinalizeEx(); os._exit(1)`},
	} {
		cases = append(cases, Case{Name: death.name, Promise: itself, Ends: dead, Must: true, Steps: alone(death.code)})
	}
	for i := range cases {
		if cases[i].Unshown == "" {
			cases[i].Unshown = "code shares the interpreter with the runtime; processes are the fence"
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
		{"a frame longer than its kind", `frame(b"N", b" " * (65 << 10))`},
		{"a forged sealed frame", `frame(b"S", b"{}")`},
		{"an outcome that is no JSON", `frame(b"D", b"{")`},
		{"an outcome of the daemon's", `frame(b"D", b'{"status":"refused","error":"by the administrator"}')`},
		{"an outcome nested deeply", `frame(b"D", b'{"status":"completed","result":' + b"[" * 100_000 + b"]" * 100_000 + b"}")`},
		{"a call that is no JSON", `frame(b"C", b"\xff\xfe")`},
		{"a picture that is a program", `frame(b"I", b'{"mime":"image/png","data":"PHNjcmlwdD4="}')`},
		{"a picture that is a page", `frame(b"I", b'{"mime":"text/html","data":"iVBORw0KGgo="}')`},
		{"more pictures than fit", `
for _ in range(20): frame(b"I", b'{"mime":"image/png","data":"iVBORw0KGgo="}')`},
	} {
		cases = append(cases, Case{Name: f.name, Promise: "A worker that breaks the protocol is ended.", Unshown: "every frame is distrusted in every configuration",
			Ends: []string{"crashed"}, Must: true, Steps: alone(forge + f.code + "\ntime.sleep(20)")})
	}
	return append(cases,
		Case{Name: "half a frame", Promise: inTime, Unshown: byHost, Time: 500 * time.Millisecond, Ends: []string{"timed_out"}, Must: true,
			Steps: alone(forge + `frame(b"D", b'{"status":', size=100); time.sleep(20)`)},
		Case{Name: "a forged outcome", Promise: "A forged outcome ends the execution that forged it, with what it said.", Unshown: "what code returns is distrusted anyway",
			Steps: alone(forge + `frame(b"D", b'{"status":"completed","result":{"note":"forged"}}'); time.sleep(20)`)},
		Case{Name: "an outcome of another execution", Promise: "A frame with another number is not believed.", Unshown: "every frame is distrusted in every configuration",
			Steps: alone(forge + `
for number in (0, 2, 3, 0xFFFFFFFF): frame(b"D", b'{"status":"completed","result":"forged"}', number)
frame(b"S", b"{}", 0)`)},
		Case{Name: "text that is no text", Promise: "Output is UTF-8.", Unshown: "every frame is distrusted in every configuration",
			Check: func(p *Result) string {
				if strings.ToValidUTF8(strings.Join(p.Output, ""), "") != strings.Join(p.Output, "") {
					return "bytes that are no UTF-8 came through"
				}
				return ""
			},
			Steps: alone(forge + `
frame(b"O", b"\xff\xfe\x00x"); frame(b"E", b"\xff"); os.write(1, b"\xc0\x80\n"); os.write(2, b"\xed\xa0\x80")`)},
		Case{Name: "calls that nobody answers", Promise: "Calls in flight are bounded.", Unshown: byHost, Time: 3 * time.Second, Ends: []string{"timed_out", "crashed"}, Must: true,
			Steps: alone(forge + `
args = b'"' + b"x" * 1_000_000 + b'"'
n = 0
while True:
    n += 1; frame(b"C", b'{"id":%d,"method":"echo","args":%s}' % (n, args))`)},
		Case{Name: "notices without end", Promise: inTime, Unshown: byHost, Time: time.Second, Ends: []string{"timed_out", "crashed"}, Must: true,
			Steps: alone(forge + `
while True: frame(b"N", b'{"method":"progress","args":{"done":1}}')`)},
		Case{Name: "calls of unknown methods", Promise: "A call that is not offered is refused.", Unshown: "the host decides what it offers",
			Steps: alone(`
import gc
channel = next(o for o in gc.get_objects() if type(o).__name__ == "Channel" and o.fd == 3)
for method in ("../secret", "__import__", "", "save_skill\0", "x" * 10_000):
    try: result = channel.call(method, {"a": [1] * 1000})
    except FileNotFoundError: pass`)},
	)
}
