package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A settled zygote, whose memory workers inherit, has most of the interpreter's code
// in huge pages, which cannot be written to.
func TestCodeOfSettledZygoteIsInHugePages(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	h.run(b, h.spec("a"), "1+1")
	zygote := b.zygoteNow()
	zygote.awaitSettled()
	smaps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pidOf(zygote.pidfd)))
	if err != nil {
		t.Skip(err) // an ordinary user may not read it
	}
	var huge int
	var protection string
	for line := range strings.Lines(string(smaps)) {
		f := strings.Fields(line)
		switch {
		case strings.Contains(f[0], "-"):
			protection = f[1]
		case f[0] == "AnonHugePages:" && strings.Contains(protection, "x"):
			kib, _ := strconv.Atoi(f[1])
			huge += kib
			if kib > 0 && protection != "r-xp" {
				t.Errorf("huge pages of code have protection %s, want r-xp", protection)
			}
		}
	}
	if huge == 0 && canCollapse(t) {
		t.Error("the zygote has no code in huge pages")
	}
	if out := h.run(b, h.spec("a"), "sum(range(10))"); string(out.Result) != "45" {
		t.Errorf("in a worker of a settled zygote: %+v", out)
	}
}

// canCollapse reports whether the kernel can give this process a huge page.
func canCollapse(t *testing.T) bool {
	const size, collapse = 2 << 20, 25 // MADV_COLLAPSE
	if strings.Contains(read("/sys/kernel/mm/transparent_hugepage/enabled"), "[never]") || unix.Getpagesize() != 4096 {
		return false
	}
	memory, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	start := -uintptr(unsafe.Pointer(&memory[0])) % size
	piece := memory[start : start+size]
	clear(piece)
	piece[0] = 1
	return unix.Madvise(piece, collapse) == nil
}
