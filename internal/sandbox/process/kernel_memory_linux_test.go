package process

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Without a cgroup, record locks count as memory, a lock without a process is refused, and shared
// memory has a file, which counts.
func TestWithoutCgroupAllMemoryIsCounted(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	if b.groups.version > 0 {
		t.Skip("this user has cgroups")
	}
	spec := h.spec("a")
	spec.Limits.MemoryBytes = 160 << 20
	for _, c := range []struct{ name, code, result, limit string }{
		{"record locks", `
import fcntl, os, time
files = [os.open(f"/tmp/{i}", os.O_CREAT | os.O_RDWR) for i in range(200)]
for at in range(120, 0, -1):
    for f in files: fcntl.lockf(f, fcntl.LOCK_EX, 1, 2 * at)
time.sleep(5)`, "", sandbox.LimitMemory},
		{"a lock of an open file", `
import fcntl, os, struct
f = os.open("/tmp/x", os.O_CREAT | os.O_RDWR)
try: fcntl.fcntl(f, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0)); result = "locked"
except PermissionError: result = "refused"
result`, `"refused"`, ""},
		{"shared memory", `
import mmap, os
m = mmap.mmap(-1, 1 << 20)
if os.fork() == 0:
    m[:5] = b"child"; os._exit(0)
os.wait()
[m[:5].decode(), len(m), type(m).__name__, os.statvfs("/dev/shm").f_bfree < os.statvfs("/dev/shm").f_blocks]`, `["child",1048576,"mmap",true]`, ""},
		{"copying without sendfile", `
import os, pathlib, shutil
open("/tmp/a", "w").write("content")
shutil.copyfile("/tmp/a", "/tmp/b"); pathlib.Path("/tmp/b").copy("/tmp/c")
open("/tmp/c").read()`, `"content"`, ""},
	} {
		s, err := b.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: c.code}, sandbox.NoHost{})
		if err != nil || out.Limit != c.limit || c.result != "" && string(out.Result) != c.result {
			t.Errorf("%s: %v, limit %q, %s, %s", c.name, err, out.Limit, out.Result, out.Error)
		}
		s.Close()
	}
}
