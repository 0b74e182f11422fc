package process

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Workers cannot create the kinds of kernel memory that the watch does not count.
func TestKindsOfKernelMemoryAreRefused(t *testing.T) {
	b := &Backend{groups: &cgroups{}}
	m := lockedDown(t, b.workerRules())
	for name, nr := range map[string]int{
		"memfd_create": unix.SYS_MEMFD_CREATE, "memfd_secret": unix.SYS_MEMFD_SECRET, "signalfd4": unix.SYS_SIGNALFD4,
		"inotify_init1": unix.SYS_INOTIFY_INIT1, "fanotify_init": unix.SYS_FANOTIFY_INIT, "io_uring_setup": unix.SYS_IO_URING_SETUP,
		"io_setup": unix.SYS_IO_SETUP, "bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
		"userfaultfd": unix.SYS_USERFAULTFD,
		"add_key":     unix.SYS_ADD_KEY, "keyctl": unix.SYS_KEYCTL, "request_key": unix.SYS_REQUEST_KEY, "socket": unix.SYS_SOCKET,
		"sendmsg": unix.SYS_SENDMSG, "sendmmsg": unix.SYS_SENDMMSG, "setsockopt": unix.SYS_SETSOCKOPT, "mknodat": unix.SYS_MKNODAT,
		"mq_open": unix.SYS_MQ_OPEN, "timer_create": unix.SYS_TIMER_CREATE, "shmget": unix.SYS_SHMGET, "semget": unix.SYS_SEMGET,
		"msgget": unix.SYS_MSGGET, "mount": unix.SYS_MOUNT, "fsopen": unix.SYS_FSOPEN, "open_tree": unix.SYS_OPEN_TREE,
		"unshare":       unix.SYS_UNSHARE,
		"epoll_create1": unix.SYS_EPOLL_CREATE1, "splice": unix.SYS_SPLICE, "vmsplice": unix.SYS_VMSPLICE, "tee": unix.SYS_TEE,
		"sendfile":                unix.SYS_SENDFILE,
		"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, "seccomp": unix.SYS_SECCOMP, "flock": unix.SYS_FLOCK,
		"setxattr":   unix.SYS_SETXATTR,
		"pidfd_open": unix.SYS_PIDFD_OPEN, "quotactl": unix.SYS_QUOTACTL, "mlock": unix.SYS_MLOCK, "membarrier": unix.SYS_MEMBARRIER,
	} {
		if got := m.run(t, auditArch, uint32(nr)); got == allow {
			t.Errorf("%s is allowed", name)
		}
	}
}

// /proc is not mounted for code: the buffers of its open files would hold memory.
func TestCodeHasNoProcFiles(t *testing.T) {
	h := newHost(t)
	wantResult(t, h.run(h.backend(nil), h.spec("a"), "import os; os.listdir('/proc')"), "[]")
}

// Descriptors count for what the kernel holds for them.
func TestWithoutCgroupDescriptorsCount(t *testing.T) {
	h := newHost(t)
	b := h.backend(func(c *Config) { c.withoutCgroups, c.Epoll, c.socketBytes = true, true, 8<<20 })
	spec := h.spec("a")
	spec.Limits.MemoryBytes = 128 << 20
	for _, c := range []struct{ name, code, says string }{
		{"watches of epoll", `
import os, select, time
r, w = os.pipe()
numbers = [os.dup(r) for _ in range(120)]
for _ in range(40):
    if os.fork() == 0:
        kept = [select.epoll() for _ in range(120)]
        for e in kept:
            for n in numbers: e.register(n, select.EPOLLIN)
        time.sleep(60)
time.sleep(20)`, "MB for open files"},
		{"other descriptors", `
import os, time
for _ in range(100):
    if os.fork() == 0:
        kept = [os.eventfd(0) for _ in range(200)] + [os.timerfd_create(time.CLOCK_MONOTONIC) for _ in range(40)]
        time.sleep(60)
time.sleep(20)`, "MB for open files"},
		{"large sockets", `
import socket, time
kept = [socket.socketpair() for _ in range(20)]
time.sleep(8)`, " of 8192 KB; see net.core.wmem_default)"},
	} {
		s, err := b.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: c.code}, sandbox.NoHost{})
		if err != nil || out.Limit != sandbox.LimitMemory || !strings.Contains(out.Error, c.says) {
			t.Errorf("%s: %v %s, limit %q: %s", c.name, err, out.Status, out.Limit, out.Error)
		}
		t.Log(out.Error)
		s.Close()
	}
}

// doctor names a net.core.wmem_default with which sockets count much.
func TestProbeReportsLargeSockets(t *testing.T) {
	h := newHost(t)
	for size, large := range map[int64]bool{usualSocketBytes: false, 8 << 20: true} {
		b := h.backend(func(c *Config) { c.withoutCgroups, c.socketBytes = true, size })
		for _, l := range b.Probe(t.Context()).Layers {
			if l.Name != "memory of all processes" {
				continue
			}
			if l.State != "soft" || strings.Contains(l.Detail+l.Remedy, "wmem_default") != large || large && !strings.Contains(l.Detail,
				"8192 KB") {
				t.Errorf("%d: %+v", size, l)
			}
		}
	}
}
