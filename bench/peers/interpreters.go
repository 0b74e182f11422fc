package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
)

// compareInterpreters measures peers and prints their table.
func compareInterpreters(ctx context.Context, all []*peer, quick bool) error {
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
	report.PrintTable(os.Stdout, rows)
	fmt.Println()
	for _, n := range notes {
		fmt.Println(n)
	}
}

func cell(t turns) string {
	if len(t.times) == 0 {
		return "-"
	}
	return report.Number(float64(t.median().Microseconds())/1000) + " ms"
}

func count(t turns) string { return fmt.Sprint(len(t.times)) }
