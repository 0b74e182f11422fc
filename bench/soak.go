package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/soak"
)

// runSoak runs the program under load for ten minutes. It fails if a result was wrong, or a resource grew
// or was left behind.
func runSoak(ctx context.Context, o *options, args []string) error {
	minutes := o.Float64("minutes", fromEnvironment("SOAK_MINUTES", 10), "duration at half of saturation")
	_ = o.Parse(args)
	return o.withProgram(ctx, func(program string) error {
		result, err := soak.Run(ctx, soak.Config{Binary: program, Duration: time.Duration(*minutes * float64(time.Minute)), Log: logLine})
		if err != nil {
			return err
		}
		result.Print(os.Stdout)
		if result.Failed() {
			return errFailed
		}
		fmt.Println("ok: every result was correct and nothing grew")
		return nil
	})
}

// fromEnvironment returns the number in an environment variable, or fallback.
func fromEnvironment(name string, fallback float64) float64 {
	if n, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return n
	}
	return fallback
}
