package sandboxtest

import (
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

const (
	byHost  = "the daemon ends it from outside, independently of the layers"
	allEnd  = "When a sandbox ends, all its processes end."
	bounded = "Code has no more processes and threads than its limit."
)

// processes returns attacks with processes and on processes.
func processes() []Case {
	few := sandbox.Limits{Processes: 32}
	return []Case{
		{Name: "fork bomb", Promise: bounded, Layers: layers("rlimits cgroups"), Limits: few, Steps: single(`
r, w = os.pipe()
made = 0
try:
    while made < 300:
        if os.fork() == 0:
            os.close(w); os.read(r, 1); os._exit(0)
        made += 1
except OSError: pass
result = made if made >= 32 else 0`)},
		{Name: "recursive fork bomb", Slow: true, Promise: bounded, Layers: layers("rlimits cgroups"), Limits: few, Steps: single(`
count, hold = tmp("count", b""), os.pipe()
def bomb(depth):
    for _ in range(6):
        try: pid = os.fork()
        except OSError: return
        if pid == 0:
            os.write(count, b"x")
            if depth: bomb(depth - 1)
            os.close(hold[1]); os.read(hold[0], 1); os._exit(0)
bomb(2)
for _ in range(100):
    time.sleep(0.02)
    if os.fstat(count).st_size >= 32: break
made = os.fstat(count).st_size
result = made if made >= 32 else 0`)},
		{Name: "thread bomb", Promise: bounded, Layers: layers("rlimits cgroups"), Limits: few, Ends: []string{"raised:processes"}, Steps: single(`
import threading
hold = threading.Event()
made = 0
try:
    threading.stack_size(64 << 10)
    while made < 300:
        threading.Thread(target=hold.wait, daemon=True).start(); made += 1
except RuntimeError: pass
finally: hold.set()
result = made if made >= 32 else 0`)},
		{Name: "orphaned processes", Promise: bounded, Layers: layers("rlimits cgroups"), Limits: few, Steps: single(`
made, r_w = 0, os.pipe()
for _ in range(150):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        try: pid = os.fork()
        except OSError: os._exit(1)
        if pid == 0: os.close(r_w[1]); os.read(r_w[0], 1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]: break
    made += 1
result = made if made >= 32 else 0`)},
		{Name: "zombies", Promise: bounded, Layers: layers("rlimits cgroups"), Limits: few, Steps: single(`
made = 0
for _ in range(300):
    try: pid = os.fork()
    except OSError: break
    if pid == 0: os._exit(0)
    made += 1
result = made if made >= 32 else 0`)},
		{Name: "daemon by double fork", Promise: allEnd, Layers: layers("pid"), Steps: []Step{
			{By: "mallory", Code: daemonize, End: true},
			{By: "mallory/2", Code: outlived}}},
		{Name: "daemon that survives a crash", Promise: allEnd, Layers: layers("pid"), Ends: []string{"crashed"}, Steps: []Step{
			{By: "mallory", Code: daemonize + "\nos._exit(0)", End: true},
			{By: "mallory/2", Code: outlived}}},
		{Name: "ignoring signals", Promise: "The timeout kills processes that ignore signals.", NotShown: byHost,
			Time: 500 * time.Millisecond, Ends: []string{"timed_out"}, Must: true,
			Steps: single(`
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    try: time.sleep(1)
    except BaseException: pass`)},
		{Name: "new session and process group", Promise: "The timeout kills processes in other groups.", NotShown: byHost,
			Time: 500 * time.Millisecond, Ends: []string{"timed_out"}, Must: true,
			Steps: single(`
for _ in range(5):
    if os.fork() == 0: os.setsid(); os.setpgid(0, 0)
while True: signal.pause()`)},
		{Name: "SIGSTOP to itself", Promise: "The timeout kills stopped processes.", NotShown: byHost, Time: 500 * time.Millisecond,
			Ends: []string{"timed_out"}, Must: true,
			Steps: single(`
os.kill(os.getpid(), signal.SIGSTOP)
pid = os.fork()
if pid == 0: os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(pid, 0)`)},
		{Name: "signals to all processes", Promise: "Code cannot signal processes outside of its sandbox.",
			NotShown: "without layers it would kill processes of the host", Ends: []string{"crashed"}, Steps: []Step{
				alice(`mine = 41`),
				mallory(`
for number in (signal.SIGTERM, signal.SIGKILL):
    for target in (-1, 0, -os.getpgid(0)):
        try: os.kill(target, number)
        except OSError: pass`),
				alice(`assert mine + 1 == 42`),
				mallory(`pass`)}},
		{Name: "a signal to a sibling", Promise: "Code cannot signal processes outside of its sandbox.", Layers: layers("pid landlock uid"),
			Steps: []Step{
				alice(`result = os.getpid()`),
				mallory(`
if results["alice"] != os.getpid():
    os.kill(results["alice"], 0); result = "reached"`)}},
		{Name: "a signal to the parent", Promise: "Code cannot signal processes outside of its sandbox.", Layers: layers("pid landlock"), Steps: single(`
parent = os.getppid()
if parent > 1:
    try: os.kill(parent, 0); result = "reached"
    except PermissionError: impossible("the parent has another uid here")`)},
		{Name: "a signal to the daemon", Promise: "Code cannot signal processes outside of its sandbox.", Layers: layers("pid landlock"), Steps: single(`
try: os.kill(host["pid"], 0); result = "reached"
except PermissionError: impossible("the daemon has another uid here")`)},
		{Name: "a signal through the channel", Promise: "The channel does not expose the daemon's process.", Layers: layers("pid landlock seccomp"), Steps: single(`
fd, size = ctypes.c_int(-1), ctypes.c_int(4)
try: kernel("getsockopt", 3, 1, 77, ctypes.byref(fd), ctypes.byref(size))
except OSError as e:
    if e.errno == errno.ENOPROTOOPT: impossible("this kernel gives no pidfd of a peer")
    raise
try: kernel("pidfd_send_signal", fd.value, 0, None, 0); result = "reached"
except PermissionError: impossible("the daemon has another uid here")`)},
		{Name: "a descriptor of the daemon's process", Promise: "The channel does not expose the daemon's process.", Layers: layers("seccomp"), Steps: single(`
fd, size = ctypes.c_int(-1), ctypes.c_int(4)
try: kernel("getsockopt", 3, 1, 77, ctypes.byref(fd), ctypes.byref(size)); result = fd.value >= 0
except OSError as e:
    if e.errno == errno.ENOPROTOOPT: impossible("this kernel gives no pidfd of a peer")
    raise`)},
		{Name: "higher priority", Promise: "Code cannot raise its priority.", NotShown: noHostCapability,
			Steps: single(`
for which, who in ((0, 0), (0, os.getpid()), (1, 0), (2, 0)):
    try: os.setpriority(which, who, -5); result = "raised"
    except OSError: pass`)},
		{Name: "replacing the interpreter", Promise: "A program that replaces the worker cannot report an outcome.", NotShown: byHost,
			Ends: []string{"crashed"}, Must: true,
			Steps: single(`
os.execv("/python/bin/python3.14", ["python3", "-I", "-S", "-c", "import os; os.write(1, b'hello')"])`)},
		{Name: "exit of the worker", Promise: "The exit of a worker is reported.", NotShown: byHost, Ends: []string{"crashed"}, Must: true,
			Steps: single(`
if os.fork(): os._exit(0)
os.setsid(); time.sleep(20)`)},
		{Name: "output of a forked child", Promise: "A forked child has no channel.",
			NotShown: "the runtime closes the channel in the child",
			Steps: single(`
pid = os.fork()
if pid == 0:
    raise SystemExit(0)
os.waitpid(pid, 0)`)},
	}
}

// daemonize leaves a process that appends to a file of the workspace for up to eight seconds.
const daemonize = `
open("/workspace/count", "w").close()
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() == 0:
        out = os.open("/workspace/count", os.O_WRONLY | os.O_APPEND)
        os.write(w, b"x")
        os.closerange(0, out) or os.closerange(out + 1, 1024)
        for _ in range(400):
            os.write(out, b"x"); time.sleep(0.02)
    os._exit(0)
os.read(r, 1)`

const outlived = `
time.sleep(0.3)
before = os.stat("/workspace/count").st_size
time.sleep(0.5)
result = os.stat("/workspace/count").st_size - before`
