package process

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

// What the restrictions on files, sockets and epoll must leave working.
func TestOrdinaryCodeWorksInSandbox(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{"present.py": "here = True\n"})
	b := h.backend(nil)
	for name, code := range map[string]string{
		"a function of Python called by C": `
import ctypes
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
numbers = (ctypes.c_int * 3)(3, 1, 2)
ctypes.CDLL(None).qsort(numbers, 3, 4, compare)
assert list(numbers) == [1, 2, 3]`,
		"machine code in memory": `
import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)`,
		"the interpreter as a child": `
import subprocess, sys
assert subprocess.check_output([sys.executable or "/python/bin/python3.14", "-c", "import asyncio, selectors; asyncio.run(asyncio.sleep(0)); print(selectors.DefaultSelector.__name__)"]) == b"PollSelector\n"`,
		"a package": `import present`,
		"asyncio": `
import asyncio, selectors, socket
assert isinstance(asyncio.get_running_loop()._selector, selectors.PollSelector)
a, b = socket.socketpair()
reader, writer = await asyncio.open_connection(sock=a)
b.sendall(b"line\n")
assert await reader.readline() == b"line\n"
p = await asyncio.create_subprocess_exec("/python/bin/python3.14", "-c", "print(2)", stdout=-1)
assert (await p.communicate())[0] == b"2\n"
writer.close()`,
		"options of a socket": `
import socket
a, b = socket.socketpair()
assert a.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM and a.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert socket.socket(fileno=a.detach()).type == socket.SOCK_STREAM`,
		"shared memory": `
from multiprocessing import Pool, Array, shared_memory
s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 1; s.close(); s.unlink()
assert sum(Array("i", 3)) == 0
with Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]`,
	} {
		if out := h.run(b, h.spec("a"), code+"\nresult = 'fine'"); string(out.Result) != `"fine"` {
			t.Errorf("%s: %s %s %s", name, out.Status, out.Error, out.Traceback)
		}
	}
}

func TestKeeperHasSeccompFilter(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	if got := procStatus(fmt.Sprintf("/proc/%d/status", b.currentKeeper().cmd.Process.Pid))["Seccomp"]; got != "2" {
		t.Errorf("the keeper's Seccomp is %q, want 2", got)
	}
	m := machine{load32(t, filter(keeperRules()))}
	for nr, want := range map[int]verdict{
		unix.SYS_OPEN_TREE: allow, unix.SYS_EXECVE: allow, unix.SYS_CLONE: allow, unix.SYS_EPOLL_PWAIT: allow,
		unix.SYS_SOCKET: refuse, unix.SYS_PTRACE: refuse, unix.SYS_BPF: refuse, unix.SYS_KEYCTL: refuse, unix.SYS_PIVOT_ROOT: refuse,
		unix.SYS_CHROOT:  refuse,
		unix.SYS_MKNODAT: refuse, unix.SYS_INIT_MODULE: refuse, unix.SYS_MEMFD_CREATE: refuse, unix.SYS_CLONE3: absent,
	} {
		if got := m.run(t, auditArch, uint32(nr), unix.CLONE_NEWNS|unix.CLONE_NEWNET); got != want {
			t.Errorf("system call %d: verdict %#x, want %#x", nr, got, want)
		}
	}
	b.zygoteNow().kill() // so that the keeper starts another under its filter
	if out := h.run(b, h.spec("a"), "1+1"); string(out.Result) != "2" {
		t.Errorf("after the zygote was replaced: %+v", out)
	}
}

func TestWorkerHasRaisedOOMScore(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	s, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if out, err := s.Run(t.Context(), sandbox.Program{Code: "1"}, sandbox.NoHost{}); err != nil || out.Status != sandbox.Completed {
		t.Fatal(out, err)
	}
	score := func(pid int) int {
		n, err := strconv.Atoi(strings.TrimSpace(read(fmt.Sprintf("/proc/%d/oom_score_adj", pid))))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := score(s.(*instance).w.hostPID()); got < oomScoreAdj {
		t.Errorf("a worker has oom_score_adj %d, want at least %d", got, oomScoreAdj)
	}
	if keeper := score(b.currentKeeper().cmd.Process.Pid); keeper >= oomScoreAdj {
		t.Errorf("the keeper, whose end ends everything, has oom_score_adj %d", keeper)
	}
}

// The keeper and zygotes, which no Landlock limits since they mount, can execute the
// interpreter and the files of glibc only.
func TestKeeperExecutesOnlyTheInterpreter(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{"present.py": "here = True\n"})
	b := h.backend(nil)
	executable := append(slices.Collect(maps.Values(h.cfg.Libraries)), "/python", keeper.PackagesDir)
	for name, pid := range map[string]int{"keeper": b.currentKeeper().cmd.Process.Pid, "zygote": pidOf(b.zygoteNow().pidfd)} {
		for line := range strings.Lines(read(fmt.Sprintf("/proc/%d/mountinfo", pid))) {
			f := strings.Fields(line) // id, parent, device, root, mount point, options
			if !slices.Contains(strings.Split(f[5], ","), "noexec") && !slices.Contains(executable, f[4]) {
				t.Errorf("the %s can execute files of the mount at %s: %s", name, f[4], f[5])
			}
		}
	}
	_ = filepath.WalkDir(h.cfg.Python, func(path string, e fs.DirEntry, err error) error {
		if info, err := e.Info(); err == nil && info.Mode().
			IsRegular() && info.Mode()&0o111 != 0 && !strings.HasSuffix(path, "/bin/python3.14") {
			t.Errorf("the interpreter's directory has another program: %s", path)
		}
		return err
	})
}
