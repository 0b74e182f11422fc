// Command sandpiper runs Python in a sandbox, from the command line or behind
// an MCP server.
//
// Each runXxx function implements a subcommand and takes its options as a plain value.
// The packages in internal, mostly daemon, implement the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
)

func main() { runProcess(all.Features()) }

// runProcess runs the command line of this process, with features, and exits.
func runProcess(features []feature.Feature) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var first atomic.Value
	go func() {
		first.Store(<-signals)
		cancel()
		os.Exit(signalled(<-signals)) // process 1 of a container would survive its default action
	}()
	code := run(ctx, features, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if s, ok := first.Load().(os.Signal); ok && code == cli.ExitInterrupted {
		code = signalled(s)
	}
	os.Exit(code)
}

// signalled returns the exit code of a process that a signal ended, as shells report it.
func signalled(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return cli.ExitFailed
}
