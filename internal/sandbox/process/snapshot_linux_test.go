package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A settled zygote has its memory in a file that only mappings of it refer to. A worker
// cannot change what the next one sees of it, nor free it.
func TestMemoryOfSettledZygoteIsInFile(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is no snapshot on " + runtime.GOARCH)
	}
	h := newHost(t)
	b := h.backend(nil)
	h.run(b, h.spec("a"), "1+1")
	zygote := b.zygoteNow()
	zygote.awaitSettled()
	pid := pidOf(zygote.pidfd)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Skip(err) // an ordinary user may not read it
	}
	var inFile int
	for line := range strings.Lines(string(maps)) {
		var start, end int
		var protection string
		_, _ = fmt.Sscanf(line, "%x-%x %s", &start, &end, &protection)
		if strings.Contains(line, "/memfd:zygote") {
			inFile += end - start
			if protection != "rw-p" {
				t.Errorf("%s: the mapping is not private", line)
			}
		}
	}
	if inFile < 8<<20 {
		t.Errorf("%d bytes of the zygote are in the file, want most of its memory:\n%s", inFile, maps)
	}
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range descriptors {
		if target, _ := os.Readlink(d); strings.Contains(target, "memfd") || strings.HasSuffix(target, "/maps") {
			t.Errorf("the zygote kept the descriptor of %s", target)
		}
	}
	const write = `
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
at = id(json.__doc__)
page = at & -mmap.PAGESIZE
remove = libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 9), ctypes.get_errno()
ctypes.memset(at + 100, 65, 50)
result = {"removed": remove[0], "errno": remove[1], "changed": "AAAA" in json.__doc__}`
	if out := h.run(b, h.spec("a"), write); string(out.Result) != `{"removed":-1,"errno":13,"changed":true}` {
		t.Errorf("a worker that writes to the memory: %s %+v", out.Result, out)
	}
	if out := h.run(b, h.spec("b"), `"AAAA" in json.__doc__`); string(out.Result) != "false" {
		t.Errorf("the next worker has what another one wrote: %+v", out)
	}
}
