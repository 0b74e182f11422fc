package home

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

func selfUID() int { return os.Geteuid() }

func ownerOf(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

func ownedByUser(fi fs.FileInfo) bool { return ownerOf(fi) == selfUID() }

// mapped reports whether the ids from first to last exist here, as uids and as
// gids: in a container root may have only a few.
func mapped(first, last int) bool {
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		b, err := os.ReadFile(file)
		if err != nil || !covers(string(b), first, last) {
			return false
		}
	}
	return true
}

func covers(idMap string, first, last int) bool {
	for line := range strings.Lines(idMap) {
		var inside, outside, size int
		if n, _ := fmt.Sscan(line, &inside, &outside, &size); n == 3 && inside <= first && last < inside+size {
			return true
		}
	}
	return false
}
