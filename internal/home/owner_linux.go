package home

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

func selfUID() int { return os.Geteuid() }

func ownerOf(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// changedOf returns when a file or its times were last changed; zero if that is not known.
func changedOf(fi fs.FileInfo) time.Time {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Time{}
}

func ownedByUser(fi fs.FileInfo) bool { return ownerOf(fi) == selfUID() }
