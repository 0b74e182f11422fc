package process

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// attacked is the most memory of the kernel during an attack, in bytes.
type attacked struct {
	pages      int64 // of the whole machine, that belong to no process and no file, above that before
	slab       int64 // of these, not reclaimable
	pageTables int64 // of the processes
	sockets    int64 // in the network namespace of the worker
	own        int64 // anonymous memory of the processes
}

// kernelPages returns the memory of this machine that is of no process and no file, and of it slab that cannot be
// reclaimed. Buffers of sockets and pipes are in no other counter of /proc/meminfo.
func kernelPages() (all, slab int64) {
	field := procStatus("/proc/meminfo")
	all = kilobytes(field["MemTotal"]) - kilobytes(field["MemFree"]) - kilobytes(field["SReclaimable"])
	for _, name := range []string{"Active(anon)", "Inactive(anon)", "Active(file)", "Inactive(file)", "Unevictable"} {
		all -= kilobytes(field[name])
	}
	return all, kilobytes(field["SUnreclaim"])
}

// measure measures until done is closed. A change of the whole machine must last for three measurements.
func (a *attacked) measure(pid int, done <-chan struct{}) {
	before, slab := kernelPages()
	var pages, slabs [3]int64
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		now, nowSlab := kernelPages()
		pages[i%3], slabs[i%3] = now-before, nowSlab-slab
		a.pages, a.slab = max(a.pages, slices.Min(pages[:])), max(a.slab, slices.Min(slabs[:]))
		var tables, own int64
		for _, pid := range descendants(pid, nil) {
			_, field := threadOf(pid)
			tables += kilobytes(field["VmPTE"])
			own += kilobytes(field["RssAnon"])
		}
		a.pageTables, a.own = max(a.pageTables, tables), max(a.own, own)
		for line := range strings.Lines(read(filepath.Join("/proc", strconv.Itoa(pid), "net/sockstat"))) {
			if used, ok := strings.CutPrefix(line, "sockets: used "); ok {
				a.sockets = max(a.sockets, number(strings.TrimSpace(used)))
			}
		}
	}
}

// Attacks end by themselves at about four times the limit, so that the machine survives a bound that fails.
const (
	attackLimit  = 320 << 20
	fillsSockets = `
import os, socket, time
def fill(s):
    s.setblocking(False)
    try:
        while True: s.send(bytes(1 << 14))
    except BlockingIOError: pass
for _ in range(60):
    if os.fork() == 0:
        kept = []
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET) * 28:
            pair = socket.socketpair(type=kind); kept.append(pair)
            for s in pair: fill(s)
            r, w = os.pipe(); os.set_blocking(w, False); os.write(w, bytes(1 << 16))
        time.sleep(60)
time.sleep(10)`
	fillsPageTables = `
import ctypes, mmap, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for _ in range(20):
    if os.fork() == 0:
        for n in range(8500): # a page that is read and not written, and two tables for it
            at = libc.mmap(0x10_0000_0000 + (n << 30), 4096, mmap.PROT_READ, 0x22, -1, 0)
            if at is None or at == ctypes.c_void_p(-1).value: break
            ctypes.string_at(at, 1)
        time.sleep(60)
time.sleep(10)`
)

// Without a cgroup, the kernel holds no more for one execution than twice its limit.
func TestWithoutCgroupKernelMemoryIsBounded(t *testing.T) {
	longtest.SkipSlow(t)
	h := newHost(t)
	attack := func(t *testing.T, code string, change func(*Config)) (attacked, sandbox.Outcome) {
		b := h.backend(change)
		defer b.Close()
		spec := h.spec("a")
		spec.Limits.MemoryBytes = attackLimit
		s, err := b.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var got attacked
		done, measured := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(measured)
			got.measure(s.(*instance).w.hostPID(), done)
		}()
		out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: code}, sandbox.NoHost{})
		close(done)
		<-measured
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: kernel pages %d MB, slab %d MB, page tables %d MB, %d sockets, own %d MB", out.Status, got.pages>>20, got.slab>>20,
			got.pageTables>>20, got.sockets, got.own>>20)
		return got, out
	}
	for name, code := range map[string]string{"sockets and pipes": fillsSockets, "page tables": fillsPageTables} {
		t.Run(name, func(t *testing.T) {
			var got attacked
			for range 5 { // other programs can raise the counters of the whole machine, and delay a measurement
				var out sandbox.Outcome
				got, out = attack(t, code, func(c *Config) { c.withoutCgroups = true })
				if out.Limit != sandbox.LimitMemory {
					t.Fatalf("%s %s %s", out.Status, out.Limit, out.Error)
				}
				if max(got.pages, got.slab, got.pageTables) <= 2*attackLimit {
					break
				}
			}
			if max(got.pages, got.slab, got.pageTables) > 2*attackLimit {
				t.Errorf("with a limit of %d MB: %+v", attackLimit>>20, got)
			}
		})
		t.Run(name+" without the bound", func(t *testing.T) { // the measurement shows the attack
			longtest.Skip(t)
			if got, _ := attack(t, code, func(c *Config) { c.Disabled = []string{"cgroups", "rlimits"} }); max(got.pages,
				got.slab) <= 2*attackLimit {
				t.Errorf("the attack succeeded, but was not measured: %+v", got)
			}
		})
	}
}
