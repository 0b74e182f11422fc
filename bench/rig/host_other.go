//go:build !linux

package rig

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// Sandboxes and their resources are only visible on Linux.

func Tree(daemon int) []Process { return []Process{{daemon, "daemon"}} }
func CPU(pid int) time.Duration { return 0 }

func PSS(int) int64            { return 0 }
func OwnMemory(int) int64      { return 0 }
func Descriptors(int) int      { return 0 }
func Mounts(int) int           { return 0 }
func Disk(string) int64        { return 0 }
func Groups([]string) []string { return nil }
func Orphans() []Process       { return nil }
func killWithParent(*exec.Cmd) {}
func interrupt(c *exec.Cmd)    { _ = c.Process.Signal(os.Interrupt) }

// Watch waits for the exit of processes.
type Watch struct{}

func NewWatch([]Process) *Watch                                       { return &Watch{} }
func (*Watch) WaitExited(context.Context, time.Duration) (left []int) { return nil }
