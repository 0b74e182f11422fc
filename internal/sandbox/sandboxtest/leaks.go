package sandboxtest

import "strings"

const (
	fixed  = "no switch gives it to a worker"
	unsaid = "Code learns nothing of the host it runs on."
)

// leaks are searches for what was left lying about.
func leaks() []Case {
	return []Case{
		{Name: "the environment", Promise: "Code sees nothing of the daemon's environment.", Unshown: fixed,
			Steps: alone(`
secret = host["secret_backwards"][::-1]
known = {"PATH", "HOME", "TMPDIR", "LANG", "TZ", "USER", "LOGNAME", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONHASHSEED", "MALLOC_ARENA_MAX", "LC_CTYPE"}
known |= {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "MPLBACKEND", "MPLCONFIGDIR"}  # with packages
result = sorted(set(os.environ) - known) or [k for k, v in os.environ.items() if secret in v]`)},
		{Name: "the environment in C", Promise: "Code sees nothing of the daemon's environment.", Unshown: fixed,
			Steps: alone(`
environ, n = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ"), 0
secret = host["secret_backwards"][::-1].encode()
while environ[n]:
    if secret in environ[n] or b"SANDPIPER" in environ[n]: result = environ[n].decode()
    n += 1`)},
		{Name: "the daemon's environment in /proc", Promise: "Code sees nothing of the daemon's environment.", Unshown: "two user namespaces and Landlock forbid it beside the missing /proc",
			Steps: alone(`result = open("/proc/%d/environ" % host["pid"]).read()`)},
		{Name: "the daemon's memory", Promise: "A worker's memory comes from a process that knew no secret.", Unshown: fixed,
			Steps: alone(`result = scan(host["secret_backwards"])`)},
		{Name: "what the search would find", Promise: "The search through memory works.", Unshown: "it is the code's own memory that is searched",
			Steps: alone(`
held = ["-".join(("marker", "of", "mallory", "herself")) for _ in range(3)]
found = scan("flesreh-yrollam-fo-rekram")
assert found, "the search found nothing that it should"`)},
		{Name: "paths of the host", Promise: unsaid, Unshown: fixed,
			Steps: alone(`
import sysconfig, site
told = [sys.path, sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys.base_prefix, sys._stdlib_dir, os.environ, os.getcwd(), __file__ if "__file__" in globals() else ""]
told += [getattr(m, "__file__", "") for m in list(sys.modules.values())]
result = [w for w in (host["dir"], "/work/", "/home/", "/root/", "/var/", "/tmp/", host["name"] * 3) for t in told if w in str(t).replace("'/tmp'", "")]`)},
		{Name: "the host's name in uname", Promise: unsaid, Layers: by("uts"),
			Steps: alone(`result = os.uname().nodename == host["name"] and host["name"] or socket.gethostname() == host["name"]`)},
		{Name: "the peer of the channel", Promise: unsaid, Layers: by("pid seccomp"),
			Steps: alone(`
pid, uid, gid = struct.unpack("iII", socket.socket(fileno=os.dup(3)).getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
result = pid == host["pid"] and pid`)},
		{Name: "the number of processes", Promise: "Code sees no process but its own.", Layers: by("pid"),
			Steps: alone(`result = os.getpid() != 1 and os.getpid()`)},
		{Name: "processes that answer", Promise: "Code sees no process but its own.", Layers: by("pid"),
			Steps: alone(`
found = []
for pid in range(1, 70_000):
    if pid == os.getpid(): continue
    try: os.close(pidfd(pid)); found.append(pid)
    except OSError: pass
    if len(found) > 5: break
result = found`)},
		{Name: "scratch space of the execution before", Promise: "Nothing is left in /tmp and /dev/shm.", Layers: by("root mount"), Steps: []Step{
			{By: "alice", Code: `
for folder in ("/tmp", "/dev/shm"):
    fd = os.open(folder + "/" + host["unique"], os.O_CREAT | os.O_WRONLY, 0o644); os.write(fd, b"left"); os.fchmod(fd, 0o666)`, End: true},
			{By: "mallory", Code: `result = [open(folder + "/" + host["unique"]).read() for folder in ("/tmp", "/dev/shm") if os.path.exists(folder + "/" + host["unique"])]`, End: true},
		}},
		{Name: "memory of the execution before", Promise: "A worker serves one sandbox.", Unshown: "no switch lets a worker serve two", Steps: []Step{
			{By: "alice", Code: `held = ["-".join(("marker", "of", "alice", str(7) * 12)) for _ in range(1000)]`, End: true},
			{By: "mallory", Code: `result = scan("777777777777-ecila-fo-rekram")`}}},
		{Name: "variables of the execution before", Promise: "A worker serves one sandbox.", Unshown: "no switch lets a worker serve two", Steps: []Step{
			{By: "alice", Code: `
import builtins, json
builtins.left = json.left = sys.left = "left"; sys.modules["left"] = json; os.environ["LEFT"] = "left"; os.umask(0o123)`, End: true},
			{By: "mallory", Code: `
import builtins, json
result = [hasattr(builtins, "left"), hasattr(json, "left"), "left" in sys.modules, "LEFT" in os.environ, os.umask(0) == 0o123].count(True)`}}},
		{Name: "descriptors shared with a sibling", Promise: "Two sandboxes share no open file but /dev/null.", Unshown: fixed, Steps: []Step{
			alice(`result = [(os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in range(4)]`),
			mallory(`
null = os.stat("/dev/null")
mine = [[os.fstat(fd).st_dev, os.fstat(fd).st_ino] for fd in range(4)]
result = [i for i in mine if i in said["alice"] and i != [null.st_dev, null.st_ino]]`)}},
		{Name: "the same random numbers", Promise: "Two sandboxes do not draw the same numbers.", Unshown: "forking reseeds in every configuration", Steps: []Step{
			alice(`
import random, uuid, secrets, tempfile
result = [random.random(), str(uuid.uuid4()), secrets.token_hex(), next(tempfile._get_candidate_names())]`),
			mallory(`
import random, uuid, secrets, tempfile
result = [x for x in (random.random(), str(uuid.uuid4()), secrets.token_hex(), next(tempfile._get_candidate_names())) if x in said["alice"]]`)}},
		{Name: "bytecode left in the library", Promise: "Code writes nothing beside the library.", Unshown: noSwitch,
			Steps: alone(`
import py_compile
sys.dont_write_bytecode = False
result = py_compile.compile(os.__file__, doraise=True)`)},
		{Name: "bytecode among the skills", Promise: "What runs is the source that is seen.", Unshown: "skills are read from their source in every configuration", Steps: []Step{
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
		{Name: "what a failure tells", Promise: "A traceback shows the code's own lines.", Unshown: fixed, Ends: []string{"raised:ZeroDivisionError"}, Must: true,
			Check: func(p *Result) string {
				if out := p.Last(); out.Status != "raised" || strings.Contains(out.Traceback, "/sandpiper/") || strings.Contains(out.Traceback, "/python/") {
					return "the traceback shows the runtime: " + out.Traceback
				}
				return ""
			},
			Steps: alone(`1 / 0`)},
	}
}
