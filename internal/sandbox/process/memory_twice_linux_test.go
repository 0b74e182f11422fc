package process

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Without a cgroup nothing that is below the limit is killed because some memory was counted twice.
func TestWithoutCgroupNoMemoryCountsTwice(t *testing.T) {
	longtest.SkipSlow(t)
	h := newHost(t)
	const kept = `
import os, socket, subprocess, time
def hold(megabytes):
    kept = bytearray(megabytes << 20)
    for at in range(0, len(kept), 4096): kept[at] = 1
    return kept
kept = hold(260)
`
	// The child has the memory of its parent until it has looked for the program in all directories.
	const slow = kept + `
many = {"PATH": ":".join(["/nowhere"] * 200_000)}
for _ in range(4):
    try: subprocess.run(["true"], env=many)
    except OSError: pass
len(kept) >> 20`
	const fast = kept + `
end, started = time.monotonic() + 3, 0
while time.monotonic() < end:
    try: subprocess.run(["true"])
    except OSError: started += 1
started > 100 and len(kept) >> 20`
	// Six processes share 55 MB, so the sum of their memory is near the limit, and have 120 sockets each.
	const shared = `
import os, socket, time
kept = bytearray(55 << 20)
for at in range(0, len(kept), 4096): kept[at] = 1
r, w = os.pipe()
for _ in range(5):
    if os.fork() == 0:
        pairs = [socket.socketpair() for _ in range(60)]
        os.write(w, b"x"); time.sleep(1); os._exit(0)
os.close(w)
while os.read(r, 5): pass
len(kept) >> 20`
	for _, c := range []struct {
		name, code, want string
		withoutKcmp      bool
	}{
		{"a child before exec", slow, "260", false},
		{"many children", fast, "260", false},
		{"many children, without kcmp", fast, "260", true},
		{"shared pages and sockets", shared, "55", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := h.backend(func(cfg *Config) { cfg.withoutCgroups, cfg.withoutKcmp = true, c.withoutKcmp })
			spec := h.spec("a")
			spec.Limits.MemoryBytes = 500 << 20
			out := h.run(b, spec, c.code)
			if out.Status != sandbox.Completed || string(out.Result) != c.want {
				t.Errorf("%s %s %s", out.Status, out.Result, out.Error)
			}
			t.Logf("peak %d MB", out.Usage.MemoryPeak>>20)
		})
	}
}
