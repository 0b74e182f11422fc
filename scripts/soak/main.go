// Command soak runs sandpiper under load for ten minutes and checks for leaks:
//
//	go run ./scripts/soak [-minutes N] [-binary FILE]
//
// It builds the program of this checkout unless -binary is set. It exits with 1 if a
// result was wrong, or a resource grew or was left behind.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
	"github.com/sandpiper-mcp/sandpiper/bench/soak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	minutes := flag.Float64("minutes", fromEnvironment("SOAK_MINUTES", 10), "duration at half of saturation")
	binary := flag.String("binary", "", "the program to run (default: a build of this checkout)")
	flag.Parse()
	result, err := runSoak(ctx, *binary, time.Duration(*minutes*float64(time.Minute)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	result.Print(os.Stdout)
	if result.Failed() {
		fmt.Println("FAILED")
		return 1
	}
	fmt.Println("ok: every result was correct and nothing grew")
	return 0
}

func runSoak(ctx context.Context, binary string, d time.Duration) (*soak.Result, error) {
	if binary == "" {
		dir, err := os.MkdirTemp("", "sandpiper-build-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if binary, err = rig.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	return soak.Run(ctx, soak.Config{Binary: binary, Duration: d, Log: func(line string) { fmt.Fprintln(os.Stderr, line) }})
}

// fromEnvironment returns the number in an environment variable, or fallback.
func fromEnvironment(name string, fallback float64) float64 {
	if n, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return n
	}
	return fallback
}
