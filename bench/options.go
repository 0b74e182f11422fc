package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/sandpiper-mcp/sandpiper/bench/build"
)

// errFailed is returned after problems were printed.
var errFailed = errors.New("FAILED")

// options are the flags of a command.
type options struct {
	*flag.FlagSet
	binary string
}

// newOptions returns the flags that all commands have.
func newOptions(command string) *options {
	o := &options{FlagSet: flag.NewFlagSet(command, flag.ExitOnError)}
	o.StringVar(&o.binary, "binary", "", "the program to run (default: a build of this checkout)")
	return o
}

// withProgram calls do with the path of the program, which is built if none was given.
func (o *options) withProgram(ctx context.Context, do func(program string) error) error {
	if o.binary != "" {
		return do(o.binary)
	}
	dir, err := os.MkdirTemp("", "sandpiper-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := build.Program(ctx, dir)
	if err != nil {
		return err
	}
	return do(program)
}

// logLine prints a progress message.
func logLine(line string) { fmt.Fprintln(os.Stderr, line) }
