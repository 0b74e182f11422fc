//go:build !linux

package confine

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Main returns: only Linux can confine a process.
func Main(string, func(input []byte) []byte) {}

// Run returns an error: only Linux can confine a process.
func Run(context.Context, string, Limits, []byte) ([]byte, error) {
	return nil, fault.New(fault.Unavailable, "documents can be parsed on Linux only, where the kernel can confine a process").WithHint("run Sandpiper in a Linux machine or container")
}
