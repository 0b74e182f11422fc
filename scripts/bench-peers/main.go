// Command bench-peers measures a warm `1+1` and a data job in sandpiper and in
// what else runs Python for agents on this machine:
//
//	go run ./scripts/bench-peers [-binary FILE] [-cache DIR] [-quick]
//
// python3 and bwrap are taken as they are installed; Pyodide, Monty and Wasmtime
// are fetched from npm and PyPI, in the versions named here, into a cache. What is
// missing is skipped and said so. All take turns, with the same pause before each
// execution, so that a machine that is busy for a while is busy for all. What one
// execution is stands in the table: compare like with like.
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
	binary := flag.String("binary", "", "sandpiper (default: this checkout, built for it)")
	flag.StringVar(&cache, "cache", filepath.Join(cache, "sandpiper-peers"), "where fetched peers are kept")
	quick := flag.Bool("quick", false, "fewer executions")
	flag.Parse()
	dir, err := os.MkdirTemp("", "sandpiper-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h := &here{cache: cache, dir: dir, data: filepath.Join(dir, "data"), binary: *binary}
	if err := h.prepare(ctx); err != nil {
		return err
	}
	defer h.close()
	all := h.peers(ctx)
	defer closeAll(all)
	if err := measure(ctx, all, *quick); err != nil {
		return err
	}
	show(all)
	return nil
}

// apart is the pause before each execution.
const apart = 20 * time.Millisecond

// measure gives every peer its turn, again and again. A peer that takes long gets
// fewer turns.
func measure(ctx context.Context, all []*peer, quick bool) error {
	sums, jobs, budget := 100, 10, 20*time.Second
	if quick {
		sums, jobs, budget = 10, 2, 3*time.Second
	}
	for range sums {
		for _, p := range all {
			p.take(ctx, &p.sums, p.sum, "2", budget)
		}
	}
	want := ""
	for range jobs {
		for _, p := range all {
			want = p.take(ctx, &p.jobs, p.job, want, budget)
		}
	}
	return context.Cause(ctx)
}

// turns are the times of one peer with one task.
type turns struct {
	times []time.Duration
	spent time.Duration
	err   error
}

// take has p do a task once, unless it failed before or had its time. The first
// answer is what all others must be.
func (p *peer) take(ctx context.Context, t *turns, task task, want string, budget time.Duration) string {
	if p.skipped != nil || t.err != nil || t.spent > budget || ctx.Err() != nil {
		return want
	}
	time.Sleep(apart)
	began := time.Now()
	got, err := task(ctx)
	took := time.Since(began)
	t.spent += took
	switch {
	case err != nil:
		t.err = err
	case want != "" && got != want:
		t.err = fmt.Errorf("answered %.100q, want %.100q", got, want)
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
	fmt.Printf("%s\nmedians; the data job filters and aggregates 20 MB of JSON\n\n", bench.ThisMachine())
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
