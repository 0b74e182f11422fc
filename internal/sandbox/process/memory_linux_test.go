package process

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The limit applies to memory in use, and an allocation that would exceed it raises MemoryError.
func TestMemoryInUseIsLimited(t *testing.T) {
	longtest.SkipSlow(t)
	h := newHost(t)
	b := h.backend(nil)
	for _, c := range []struct {
		name, code string
		want       string         // "" if it ends over the limit
		status     sandbox.Status // "" if a busy machine decides how
	}{
		{"100 threads", `
import threading
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(100)]
for t in threads: t.start()
done.set()
for t in threads: t.join()
len(threads)`, "100", sandbox.Completed},
		{"address space without memory", `
import mmap
kept = [mmap.mmap(-1, 1 << 30) for _ in range(3)] + [mmap.mmap(-1, 1 << 30, prot=mmap.PROT_READ)]
len(kept)`, "4", sandbox.Completed},
		{"a mapped file", `
import mmap
with open("/workspace/large", "wb") as f:
    for _ in range(700): f.write(bytes(1 << 20))
with open("/workspace/large", "rb") as f:
    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
n = sum(m[at] for at in range(0, len(m), 4096))
m.close(); delete_file("large")
n`, "0", sandbox.Completed},
		{"shared memory", `
from multiprocessing import shared_memory
import time
s = shared_memory.SharedMemory(create=True, size=200 << 20)
s.buf[:] = b"x" * len(s.buf)
time.sleep(0.3)
n = s.buf[0]
s.close(); s.unlink()
n`, "120", sandbox.Completed},
		{"one allocation", `b"x" * 10**9`, "", sandbox.Raised},
		{"many small ones", "kept = []\nwhile True: kept.append(bytearray(b'x') * 100_000)", "", ""},
		{"growing gradually", "import time\nkept = []\nwhile True:\n    kept.append(bytearray(b'x') * 10_000_000)\n    time.sleep(0.01)",
			"", ""},
		{"a mapping that cannot be made", "import mmap\nmmap.mmap(-1, 700 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)", "",
			sandbox.Raised},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := h.run(b, h.spec("a"), c.code)
			if c.want != "" {
				wantResult(t, out, c.want)
			} else if c.status != "" && out.Status != c.status || out.Limit != sandbox.LimitMemory {
				t.Errorf("%s, limit %q: %s", out.Status, out.Limit, out.Error)
			}
		})
	}
}

// After a MemoryError a live interpreter can allocate again.
func TestMemoryErrorLeavesInterpreterUsable(t *testing.T) {
	h := newHost(t)
	s, err := h.backend(nil).Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		code   string
		status sandbox.Status
	}{
		{"kept = b'x' * (300 << 20)\nmore = b'x' * (700 << 20)", sandbox.Raised},
		{"len(kept)", sandbox.Completed},
		{"del kept\nlen(b'x' * (400 << 20))", sandbox.Completed},
	} {
		out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: c.code}, sandbox.NoHost{})
		if err != nil || out.Status != c.status {
			t.Fatalf("%s: %v %+v", c.code, err, out)
		}
	}
}

// Code that fails before the first measurement has used memory, also without a cgroup.
func TestMemoryOfShortCodeIsMeasured(t *testing.T) {
	h := newHost(t)
	b := h.backend(func(c *Config) { c.Disabled = []string{"cgroups"} })
	if out := h.run(b, h.spec("a"), "bytearray(1 << 40)"); out.Limit != sandbox.LimitMemory || out.Usage.MemoryPeak < 1<<20 {
		t.Errorf("%+v", out)
	}
}
