package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// findMarked returns the processes with the marker in their environment: the descendants of
// a program, except those that removed it or run as another user.
func findMarked(mark string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(mark)) { // an error: exited, or owned by another user
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
