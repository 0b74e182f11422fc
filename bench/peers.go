package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/bench/peers"
)

// runPeers compares the program with other ways to run code for agents.
func runPeers(ctx context.Context, o *options, args []string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	var cfg peers.Config
	o.StringVar(&cfg.Cache, "cache", filepath.Join(cache, "sandpiper-peers"), "directory of installed peers")
	o.StringVar(&cfg.Baseline, "baseline", "", "another sandpiper, to be compared with upstream servers too")
	o.StringVar(&cfg.Table, "table", "", "only this table: interpreters, servers, job (default: all)")
	o.BoolVar(&cfg.Quick, "quick", false, "fewer executions")
	_ = o.Parse(args)
	return o.withProgram(ctx, func(program string) error {
		cfg.Binary = program
		return peers.Run(ctx, cfg)
	})
}
