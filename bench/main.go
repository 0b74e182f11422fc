// Command bench runs the built program under load, kills it, and compares it with others:
//
//	go run -C bench . chaos|peers|soak|tenants [flags]
//
// It builds the program of this checkout unless -binary is set, and exits with 1 if it found a problem.
// The command sandpiper bench measures the performance on one machine.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// commands are what the program can do, by their names.
var commands = map[string]func(ctx context.Context, o *options, args []string) error{
	"chaos":   runChaos,
	"peers":   runPeers,
	"soak":    runSoak,
	"tenants": runTenants,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("name one of the commands %s", strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
	}
	return commands[args[0]](ctx, newOptions(args[0]), args[1:])
}
