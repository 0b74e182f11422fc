// Command bench-peers compares sandpiper with other ways to run code for agents, in
// three tables:
//
//	go run ./scripts/bench-peers [-binary FILE] [-baseline FILE] [-cache DIR] [-table NAME] [-quick]
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
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	binary := flag.String("binary", "", "sandpiper (default: a build of this checkout)")
	flag.StringVar(&cache, "cache", filepath.Join(cache, "sandpiper-peers"), "directory of installed peers")
	baseline := flag.String("baseline", "", "another sandpiper, to be compared with upstream servers too")
	table := flag.String("table", "", "only this table: interpreters, servers, job (default: all)")
	quick := flag.Bool("quick", false, "fewer executions")
	flag.Parse()
	dir, err := os.MkdirTemp("", "sandpiper-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h := &environment{cache: cache, dir: dir, data: filepath.Join(dir, "data"), binary: *binary}
	if err := h.prepare(ctx); err != nil {
		return err
	}
	defer h.close()
	fmt.Println(bench.ThisMachine())
	if *table == "" || *table == "job" {
		if err := h.countJob(ctx); err != nil {
			return err
		}
	}
	if *table == "" || *table == "interpreters" {
		if err := h.compareInterpreters(ctx, *quick); err != nil {
			return err
		}
	}
	if *table == "" || *table == "servers" {
		all := h.servers(ctx, *baseline)
		if err := measureServers(ctx, all, *quick); err != nil {
			return err
		}
		showServers(all)
	}
	return nil
}

func (h *environment) compareInterpreters(ctx context.Context, quick bool) error {
	all := h.peers(ctx)
	defer closeAll(all)
	if err := measure(ctx, all, quick); err != nil {
		return err
	}
	show(all)
	return nil
}

// callPause is the pause before each execution.
const callPause = 20 * time.Millisecond

// measure runs the tasks of all peers alternately. A slow peer runs its tasks less
// often.
func measure(ctx context.Context, all []*peer, quick bool) error {
	sums, jobs, budget := 100, 10, 20*time.Second
	if quick {
		sums, jobs, budget = 10, 2, 3*time.Second
	}
	for range sums {
		for _, p := range all {
			if p.skipped == nil {
				p.sums.take(ctx, p.sum, "2", budget)
			}
		}
	}
	want := ""
	for range jobs {
		for _, p := range all {
			if p.skipped == nil {
				want = p.jobs.take(ctx, p.job, want, budget)
			}
		}
	}
	return context.Cause(ctx)
}

// turns has the measurements of one task of one peer.
type turns struct {
	times []time.Duration
	spent time.Duration
	err   error
}

// take runs a task once, unless it failed before or used its time budget. All answers
// must be equal to the first.
func (t *turns) take(ctx context.Context, task task, want string, budget time.Duration) string {
	if t.err != nil || t.spent > budget || ctx.Err() != nil {
		return want
	}
	time.Sleep(callPause)
	began := time.Now()
	got, err := task(ctx)
	took := time.Since(began)
	t.spent += took
	switch {
	case err != nil:
		t.err = err
	case want != "" && got != want:
		t.err = fmt.Errorf("result %.100q, want %.100q", got, want)
	default:
		t.times = append(t.times, took)
		return got
	}
	return want
}

func (t turns) median() time.Duration {
	if len(t.times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(t.times))[len(t.times)/2]
}

func show(all []*peer) {
	rows := [][]string{{"", "1+1", "n", "data job", "n", "one execution is"}}
	var notes []string
	for _, p := range all {
		if p.skipped != nil {
			notes = append(notes, fmt.Sprintf("skipped %s: %v", p.name, p.skipped))
			continue
		}
		rows = append(rows, []string{p.name, cell(p.sums), count(p.sums), cell(p.jobs), count(p.jobs), p.method})
		if err := errors.Join(p.sums.err, p.jobs.err); err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", p.name, err))
		}
	}
	fmt.Print("\nmedians; the data job filters and aggregates 20 MB of JSON\n\n")
	bench.PrintTable(os.Stdout, rows)
	fmt.Println()
	for _, n := range notes {
		fmt.Println(n)
	}
}

func cell(t turns) string {
	if len(t.times) == 0 {
		return "-"
	}
	return bench.Number(float64(t.median().Microseconds())/1000) + " ms"
}

func count(t turns) string { return fmt.Sprint(len(t.times)) }
