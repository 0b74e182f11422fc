// Command soak keeps sandpiper at work for ten minutes and looks for what grows:
//
//	go run ./scripts/soak [-minutes N] [-binary FILE]
//
// It builds the program of this checkout unless a binary is named. It ends with 1
// if an answer was wrong, something grew steadily or was left behind.
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
	minutes := flag.Float64("minutes", fromEnvironment("SOAK_MINUTES", 10), "how long, at half of saturation")
	binary := flag.String("binary", "", "the program to soak (default: this checkout, built for it)")
	flag.Parse()
	result, err := soaked(ctx, *binary, time.Duration(*minutes*float64(time.Minute)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	result.Print(os.Stdout)
	if result.Failed() {
		fmt.Println("FAILED")
		return 1
	}
	fmt.Println("ok: every answer was right and nothing grew")
	return 0
}

func soaked(ctx context.Context, binary string, d time.Duration) (*soak.Result, error) {
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

// fromEnvironment is the number in a variable, or otherwise.
func fromEnvironment(name string, otherwise float64) float64 {
	if n, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return n
	}
	return otherwise
}
