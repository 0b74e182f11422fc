//go:build !linux

package rig

import (
	"os"
	"os/exec"
)

// Sandboxes and their resources are only visible on Linux.

func Tree(daemon int) []Process { return []Process{{daemon, "daemon"}} }
func IsKeeper(int) bool         { return false }
func PSS(int) int64             { return 0 }
func OwnMemory(int) int64       { return 0 }
func killWithParent(*exec.Cmd)  {}
func interrupt(c *exec.Cmd)     { _ = c.Process.Signal(os.Interrupt) }
