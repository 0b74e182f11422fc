package rig

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// keeperName is the command name of the process that owns a sandbox's namespaces.
const keeperName = "sandpiper-sandbox-keeper"

// Tree returns the processes of a daemon, itself first. Processes that exit during the
// call are omitted.
func Tree(daemon int) []Process {
	return tree(daemon, Part("daemon"))
}

func tree(pid int, part Part) []Process {
	all := []Process{{PID: pid, Part: part}}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		children, _ := os.ReadFile(t)
		for child := range strings.FieldsSeq(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, tree(n, childPart(pid, part, n))...)
			}
		}
	}
	return all
}

// childPart returns the role of a child. A worker has its own PID namespace; when its
// zygote exits it becomes a child of the keeper.
func childPart(pid int, part Part, child int) Part {
	switch {
	case part == "daemon" && IsKeeper(child):
		return "keeper"
	case part == "keeper" && namespaces(child) <= namespaces(pid):
		return "zygote"
	}
	return "worker"
}

// namespaces returns the number of nested PID namespaces of a process.
func namespaces(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(ids))
		}
	}
	return 0
}

// IsKeeper reports whether a process is the keeper of a sandbox.
func IsKeeper(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.HasPrefix(line, []byte(keeperName))
}

// PSS returns the proportional set size of a process in bytes, or 0 if it is not
// readable.
func PSS(pid int) int64 { return rollup(pid, "Pss:") }

// OwnMemory returns the resident memory of a process in bytes that is not a page of a file,
// or 0 if it is not readable. It does not depend on other processes with the same program.
func OwnMemory(pid int) int64 { return rollup(pid, "Anonymous:") }

func rollup(pid int, field string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// killWithParent makes the kernel terminate c when this process exits.
func killWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

func interrupt(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGTERM) }
