package sandboxtest

import "strings"

const (
	alwaysOn   = "no configuration exposes it to a worker"
	noHostInfo = "Code learns nothing about its host."
)

// leaks returns attacks that search for data of the host, the daemon and other executions.
func leaks() []Case {
	return []Case{
		{Name: "the environment", Promise: "Code cannot read the environment of the daemon.", NotShown: alwaysOn,
			Steps: single(`
secret = host["secret_backwards"][::-1]
known = {"PATH", "HOME", "TMPDIR", "LANG", "TZ", "USER", "LOGNAME", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONHASHSEED", "MALLOC_ARENA_MAX", "LC_CTYPE"}
known |= {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "MPLBACKEND", "MPLCONFIGDIR", "POLARS_TEMP_DIR", "PYTHONPATH"}  # with packages
result = sorted(set(os.environ) - known) or [k for k, v in os.environ.items() if secret in v]`)},
		{Name: "the environment in C", Promise: "Code cannot read the environment of the daemon.", NotShown: alwaysOn,
			Steps: single(`
environ, n = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ"), 0
secret = host["secret_backwards"][::-1].encode()
while environ[n]:
    if secret in environ[n] or b"SANDPIPER" in environ[n]: result = environ[n].decode()
    n += 1`)},
		{Name: "the daemon's environment in /proc", Promise: "Code cannot read the environment of the daemon.",
			NotShown: "two user namespaces and Landlock prevent it, in addition to the missing /proc",
			Steps:    single(`result = open("/proc/%d/environ" % host["pid"]).read()`)},
		{Name: "the daemon's memory", Promise: "A worker's memory was never that of a process with secrets.", NotShown: alwaysOn,
			Steps: single(`result = scan(host["secret_backwards"])`)},
		{Name: "memory scan of a known value", Promise: "The memory scan of the previous case works.",
			NotShown: "it scans the code's own memory",
			Steps: single(`
kept = ["-".join(("marker", "of", "mallory", "herself")) for _ in range(3)]
found = scan("flesreh-yrollam-fo-rekram")
assert found, "the scan did not find the known value"`)},
		{Name: "paths of the host", Promise: noHostInfo, NotShown: alwaysOn,
			Steps: single(`
import sysconfig, site
texts = [sys.path, sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys.base_prefix, sys._stdlib_dir, os.environ, os.getcwd(), __file__ if "__file__" in globals() else ""]
texts += [getattr(m, "__file__", "") for m in list(sys.modules.values())]
result = [w for w in (host["dir"], "/work/", "/home/", "/root/", "/var/", "/tmp/", host["name"] * 3) for t in texts if w in str(t).replace("'/tmp'", "")]`)},
		{Name: "the host's name in uname", Promise: noHostInfo, Layers: layers("uts"),
			Steps: single(`result = os.uname().nodename == host["name"] and host["name"] or socket.gethostname() == host["name"]`)},
		{Name: "the peer of the channel", Promise: noHostInfo, Layers: layers("pid seccomp"),
			Steps: single(`
pid, uid, gid = struct.unpack("iII", socket.socket(fileno=os.dup(3)).getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
result = pid == host["pid"] and pid`)},
		{Name: "the number of processes", Promise: "Code sees only its own processes.", Layers: layers("pid"),
			Steps: single(`result = os.getpid() != 1 and os.getpid()`)},
		{Name: "processes by pid", Promise: "Code sees only its own processes.", Layers: layers("pid"),
			Steps: single(`
found = []
for pid in range(1, 70_000):
    if pid == os.getpid(): continue
    try: os.getsid(pid); found.append(pid)
    except OSError: pass
    if len(found) > 5: break
result = found`)},
		{Name: "scratch space of the previous execution", Promise: "/tmp and /dev/shm are empty at the start.",
			Layers: layers("root mount"), Steps: []Step{
				{By: "alice", Code: `
for folder in ("/tmp", "/dev/shm"):
    fd = os.open(folder + "/" + host["unique"], os.O_CREAT | os.O_WRONLY, 0o644); os.write(fd, b"left"); os.fchmod(fd, 0o666)`, End: true},
				{By: "mallory", Code: `result = [open(folder + "/" + host["unique"]).read() for folder in ("/tmp", "/dev/shm") if ` +
					`os.path.exists(folder + "/" + host["unique"])]`, End: true},
			}},
		{Name: "memory of the previous execution", Promise: "A worker serves only one sandbox.",
			NotShown: "no configuration lets a worker serve two", Steps: []Step{
				{By: "alice", Code: `kept = ["-".join(("marker", "of", "alice", str(7) * 12)) for _ in range(1000)]`, End: true},
				{By: "mallory", Code: `result = scan("777777777777-ecila-fo-rekram")`}}},
		{Name: "variables of the previous execution", Promise: "A worker serves only one sandbox.",
			NotShown: "no configuration lets a worker serve two", Steps: []Step{
				{By: "alice", Code: `
import builtins, json
builtins.left = json.left = sys.left = "left"; sys.modules["left"] = json; os.environ["LEFT"] = "left"; os.umask(0o123)`, End: true},
				{By: "mallory", Code: `
import builtins, json
result = [hasattr(builtins, "left"), hasattr(json, "left"), "left" in sys.modules, "LEFT" in os.environ, os.umask(0) == 0o123].count(True)`}}},
		{Name: "descriptors shared with a sibling", Promise: "Two sandboxes share no open file except /dev/null.", NotShown: alwaysOn,
			Steps: []Step{
				alice(`result = [(os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in range(4)]`),
				mallory(`
null = os.stat("/dev/null")
mine = [[os.fstat(fd).st_dev, os.fstat(fd).st_ino] for fd in range(4)]
result = [i for i in mine if i in results["alice"] and i != [null.st_dev, null.st_ino]]`)}},
		{Name: "equal random numbers", Promise: "Two sandboxes generate different random numbers.",
			NotShown: "generators are reseeded after a fork in every configuration", Steps: []Step{
				alice(`
import random, uuid, secrets, tempfile
result = [random.random(), str(uuid.uuid4()), secrets.token_hex(), next(tempfile._get_candidate_names())]`),
				mallory(`
import random, uuid, secrets, tempfile
result = [x for x in (random.random(), str(uuid.uuid4()), secrets.token_hex(), next(tempfile._get_candidate_names())) if x in results["alice"]]`)}},
		{Name: "bytecode written to the library", Promise: "Code cannot write to the library directory.", NotShown: noSwitch,
			Steps: single(`
import py_compile
sys.dont_write_bytecode = False
result = py_compile.compile(os.__file__, doraise=True)`)},
		{Name: "bytecode planted among the skills", Promise: "Skills run from their visible source.",
			NotShown: "skills are loaded from source in every configuration", Steps: []Step{
				{By: "mallory", Code: `
import importlib.util, marshal
os.mkdir("/workspace/skills"); os.mkdir("/workspace/skills/__pycache__")
open("/workspace/skills/helper.py", "w").write("value = 'seen'")
code = compile("value = 'hidden'", "helper.py", "exec")
data = importlib.util.MAGIC_NUMBER + struct.pack("<I", 1) + bytes(8) + marshal.dumps(code)
open(importlib.util.cache_from_source("/workspace/skills/helper.py"), "wb").write(data)`, End: true},
				{By: "mallory/2", Code: `
try:
    from skills import helper
    result = helper.value == "hidden"
except ImportError: pass`},
			}},
		{Name: "traceback", Promise: "A traceback contains only lines of the code.", NotShown: alwaysOn,
			Ends: []string{"raised:ZeroDivisionError"}, Must: true,
			Check: func(p *Result) string {
				if out := p.Last(); out.Status != "raised" || strings.Contains(out.Traceback, "/sandpiper/") ||
					strings.Contains(out.Traceback, "/python/") {
					return "the traceback shows the runtime: " + out.Traceback
				}
				return ""
			},
			Steps: single(`1 / 0`)},
	}
}
