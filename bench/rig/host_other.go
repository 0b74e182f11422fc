//go:build !linux

package rig

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// What a sandbox leaves to be seen, it leaves on Linux alone.

func Tree(daemon int) []Process { return []Process{{daemon, "daemon"}} }
func PSS(int) int64             { return 0 }
func Descriptors(int) int       { return 0 }
func Mounts(int) int            { return 0 }
func Disk(string) int64         { return 0 }
func Groups([]string) []string  { return nil }
func Orphans() []Process        { return nil }
func diesWithUs(*exec.Cmd)      {}
func interrupt(c *exec.Cmd)     { _ = c.Process.Signal(os.Interrupt) }

// Watch are processes whose end can be waited for.
type Watch struct{}

func NewWatch([]Process) *Watch                                  { return &Watch{} }
func (*Watch) Ended(context.Context, time.Duration) (left []int) { return nil }
