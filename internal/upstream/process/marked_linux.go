package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// marked finds the processes that carry the mark in their environment: all that
// a program started, wherever they went since, unless one cleared it.
func findMarked(mark string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(mark)) {
			continue // gone, or another user's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
