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
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
