package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// quotaHost is a backend, and a spec whose workspace has a quota of so many MiB.
func quotaHost(t testing.TB, mib int64) (*host, *Backend, sandbox.Spec) {
	h := newHost(t)
	b, spec := h.withQuota(mib)
	return h, b, spec
}

func (h *host) withQuota(mib int64) (*Backend, sandbox.Spec) {
	spec := h.spec("mallory")
	spec.Limits.WorkspaceDisk, spec.Limits.WorkspaceFiles = mib<<20, 100_000
	return h.backend(nil), spec
}

func (h *host) dir(spec sandbox.Spec) string {
	return filepath.Join(h.cfg.Roots["workspaces"], spec.Mounts[0].Name)
}

// On a busy machine several executions end before their writes are measured: 57 MB were
// seen. Without the quota it would be 256 MB.
func TestQuotaHoldsAcrossShortExecutions(t *testing.T) {
	attempts := 1
	for n := 0; n < attempts; n++ {
		h := newHost(t)
		if err := mountExt4(t, h.cfg.Roots["workspaces"]); err != nil {
			t.Logf("other programs that free space can disturb this test: %v", err)
			attempts = 5
		}
		b, spec := h.withQuota(32)
		if endsShortExecution(t, h, b, spec) {
			return
		}
	}
	t.Error("none was ended")
}

// endsShortExecution reports whether one of 64 executions that write 4 MiB each is ended by the quota.
func endsShortExecution(t *testing.T, h *host, b *Backend, spec sandbox.Spec) bool {
	t.Helper()
	for n := range 64 {
		out := h.run(b, spec, fmt.Sprintf(`open("/workspace/%d", "wb").write(bytes(4 << 20))`, n))
		if out.Status == sandbox.OverLimit && out.Limit == sandbox.LimitDisk {
			if u, _, err := usage(t.Context(), h.dir(spec)); err != nil || u > 96<<20 {
				t.Errorf("%d bytes are used, %v", u, err)
			}
			return true
		}
	}
	return false
}

func TestWorkspaceOverQuotaMayShrink(t *testing.T) {
	h, b, spec := quotaHost(t, 16)
	sb, err := b.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	run := func(code string) sandbox.Outcome {
		out, err := sb.Run(t.Context(), sandbox.Program{Code: code}, sandbox.NoHost{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := run(`open("/workspace/a", "wb").write(bytes(10 << 20))`); out.Status != sandbox.Completed {
		t.Fatalf("%+v", out)
	}
	if out := h.run(b, spec, `open("/workspace/b", "wb").write(bytes(10 << 20)); import time; time.sleep(20)`); out.Limit != sandbox.LimitDisk {
		t.Fatalf("%+v", out)
	}
	if out := run(`import os, time; os.remove("/workspace/b"); time.sleep(0.5)`); out.Status != sandbox.Completed {
		t.Errorf("deleting: %+v", out)
	}
	if out := run(`open("/workspace/b", "wb").write(bytes(10 << 20)); time.sleep(20)`); out.Limit != sandbox.LimitDisk {
		t.Errorf("writing again: %+v", out)
	}
}

// What code has written before the first measurement would count as there before. The first one is slow here.
func TestQuotaAppliesToFirstWrites(t *testing.T) {
	h := newHost(t)
	var first sync.Once
	h.cfg.Usage = func(ctx context.Context, dir string) (bytes, files int64, err error) {
		first.Do(func() { <-time.After(300 * time.Millisecond) })
		return usage(ctx, dir)
	}
	b, spec := h.withQuota(1)
	out := h.run(b, spec, `open("/workspace/a", "wb").write(bytes(10 << 20)); import time; time.sleep(10)`)
	if out.Limit != sandbox.LimitDisk {
		t.Errorf("%s %s", out.Status, out.Error)
	}
}

func TestWriteBelowReserveKillsExecution(t *testing.T) {
	h := newHost(t)
	b := h.backend(func(c *Config) { c.Reserve = 1 << 60 })
	spec := h.spec("mallory")
	spec.Limits.WorkspaceDisk = 1 << 40
	out := h.run(b, spec, `import time; time.sleep(0.5); open("/workspace/a", "wb").write(bytes(4 << 20)); time.sleep(20)`)
	if out.Status != sandbox.OverLimit || out.Limit != sandbox.LimitHostDisk {
		t.Errorf("%+v", out)
	}
	if out := h.run(b, spec, `import time; time.sleep(0.5); len(open("/workspace/a", "rb").read())`); out.Status != sandbox.Completed {
		t.Errorf("code that reads: %+v", out)
	}
}

// What other programs write to the same file system counts as missing space too: where
// the test may mount a file system of its own, one attempt suffices.
func TestMappedDeletedFileCountsAtMostMissingSpace(t *testing.T) {
	h := newHost(t)
	attempts := 1
	if err := mountExt4(t, h.cfg.Roots["workspaces"]); err != nil {
		t.Logf("other programs can disturb this test: %v", err)
		attempts = 5
	}
	b, spec := h.withQuota(64)
	var out sandbox.Outcome
	for range attempts {
		out = h.run(b, spec, `
import mmap, os, time
fd = os.open("/workspace/a", os.O_CREAT | os.O_RDWR); os.write(fd, bytes(8 << 20))
m = mmap.mmap(fd, 8 << 20, trackfd=False); os.close(fd); os.unlink("/workspace/a")
open("/workspace/b", "wb").write(bytes(8 << 20))
time.sleep(1); len(m)`)
		if out.Status == sandbox.Completed {
			return
		}
	}
	t.Errorf("%+v", out)
}

// mountExt4 mounts an empty ext4 file system of 256 MiB on dir.
func mountExt4(t *testing.T, dir string) error {
	image := filepath.Join(t.TempDir(), "image")
	for _, args := range [][]string{{"truncate", "-s", "256M", image}, {"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// BenchmarkDiskOvershoot reports how far an execution gets that writes as fast as
// it can, beyond the default quota, before it is ended.
func BenchmarkDiskOvershoot(b *testing.B) {
	for _, attack := range []struct{ name, prepare, code string }{
		{"files", "", `
block = bytes(1 << 20)
def fill(p):
    for n in range(100):
        with open(f"/workspace/{p}-{n}", "wb", 0) as f:
            for _ in range(256): f.write(block)`},
		{"deleted", "", `
block = bytes(1 << 20)
def fill(p):
    kept = []
    for n in range(100):
        fd = os.open("/workspace", os.O_TMPFILE | os.O_RDWR, 0o600); kept.append(fd)
        for _ in range(256): os.write(fd, block)`},
		{"beside-90000-files", `
for d in range(90):
    os.mkdir(f"/workspace/{d}")
    for n in range(1000): os.close(os.open(f"/workspace/{d}/{n}", os.O_CREAT | os.O_WRONLY))`, `
block = bytes(1 << 20)
def fill(p):
    for n in range(100):
        with open(f"/workspace/x{p}-{n}", "wb", 0) as f:
            for _ in range(256): f.write(block)`},
		{"names", "", `
def fill(p):
    os.mkdir(f"/workspace/{p}")
    for n in range(200_000): os.close(os.open(f"/workspace/{p}/{n}", os.O_CREAT | os.O_WRONLY))`},
	} {
		b.Run(attack.name, func(b *testing.B) {
			for b.Loop() {
				overshoot(b, attack.prepare, attack.code)
			}
		})
	}
}

func overshoot(b *testing.B, prepare, code string) {
	h, backend, spec := quotaHost(b, 2048)
	if out := h.run(backend, spec, "import os\n"+prepare); out.Status != sandbox.Completed {
		b.Fatalf("%+v", out)
	}
	out := h.run(backend, spec, "import os\n"+strings.TrimSpace(code)+`
pids = []
for p in range(4):
    pid = os.fork()
    if pid == 0: fill(p); os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)`)
	if out.Limit != sandbox.LimitDisk {
		b.Fatalf("%+v", out)
	}
	bytes, files, err := usage(b.Context(), h.dir(spec))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(bytes-2048<<20)/(1<<20), "MB-over")
	b.ReportMetric(float64(files-100_000), "files-over")
	backend.Close()
	_ = os.RemoveAll(h.dir(spec))
}
