//go:build !linux

package host

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

func CPU(int) time.Duration    { return 0 }
func Descriptors(int) int      { return 0 }
func Mounts(int) int           { return 0 }
func Disk(string) int64        { return 0 }
func Groups([]string) []string { return nil }
func Orphans() []rig.Process   { return nil }

// Watch waits for the exit of processes.
type Watch struct{}

func NewWatch([]rig.Process) *Watch                                   { return &Watch{} }
func (*Watch) WaitExited(context.Context, time.Duration) (left []int) { return nil }
