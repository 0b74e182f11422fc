// Package peers compares sandpiper with other ways to run code for agents, in three tables.
//
// The table of interpreters has a warm `1+1` and a data job. The table of servers has
// calls of tools: MCP servers and libraries with a code mode use two upstream servers.
// The table of the job has the tokens of a model that finds a tool and filters its rows.
//
// It uses the installed python3, node, npm and bwrap. It installs fixed versions of
// everything else from npm and PyPI into a cache. Missing programs are skipped with a
// message. All programs take turns with the same pause before each execution, so that
// load on the machine affects all of them. The tables describe one execution of each:
// compare only similar ones.
package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
)

// Config of a comparison.
type Config struct {
	Binary   string // sandpiper; required
	Baseline string // another sandpiper, to be compared with upstream servers too; "" means none
	Cache    string // directory of installed peers; required
	Table    string // "interpreters", "servers" or "job"; "" means all
	Quick    bool   // fewer executions
}

// Run measures and prints the tables.
func Run(ctx context.Context, cfg Config) error {
	dir, err := os.MkdirTemp("", "sandpiper-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h := &environment{packages: packages{cfg.Cache}, dir: dir, data: filepath.Join(dir, "data"), binary: cfg.Binary}
	if err := h.prepare(ctx); err != nil {
		return err
	}
	defer h.close()
	fmt.Println(report.ThisMachine())
	if cfg.Table == "" || cfg.Table == "job" {
		if err := h.countJob(ctx); err != nil {
			return err
		}
	}
	if cfg.Table == "" || cfg.Table == "interpreters" {
		if err := compareInterpreters(ctx, h.peers(ctx), cfg.Quick); err != nil {
			return err
		}
	}
	if cfg.Table == "" || cfg.Table == "servers" {
		all := h.servers(ctx, cfg.Baseline)
		if err := measureServers(ctx, all, cfg.Quick); err != nil {
			return err
		}
		showServers(all)
	}
	return nil
}
