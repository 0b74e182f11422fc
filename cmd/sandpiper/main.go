// Command sandpiper runs Python in a sandbox, from the command line or behind
// an MCP server.
//
// One file holds one subcommand; each runXxx takes its options as a plain value.
// What the commands do lies in the packages under internal, mostly in daemon.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

func main() {
	process.Main() // does not return in a process that keeps a sandbox
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
