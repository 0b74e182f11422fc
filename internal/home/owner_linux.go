package home

import (
	"io/fs"
	"os"
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
