package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// veryFirstStart measures the first start, which unpacks Python.
func (b *bench) veryFirstStart(ctx context.Context) ([]Row, error) {
	began := time.Now()
	if err := b.rig.Ready(ctx); err != nil {
		return nil, err
	}
	took := time.Since(began)
	var err error
	if b.bare, err = b.rig.Bare(); err != nil {
		return nil, err
	}
	return []Row{{Name: "very_first_start", Measure: "very first start, unpacking Python", Value: ms(took), Unit: "ms", Aim: "4,000 ms"}},
		nil
}

// start measures the time from the start of the program to its first result.
func (b *bench) start(ctx context.Context) ([]Row, error) {
	ours, bare, err := inTurns(choose(b, 20, 5), func() (time.Duration, error) {
		began := time.Now()
		_, err := b.rig.Run(ctx, "exec", "-c", "1+1")
		return time.Since(began), err
	}, func() (time.Duration, error) { return b.timeBare(ctx, "print(1+1)") })
	if err != nil {
		return nil, err
	}
	return []Row{
		Row{Name: "first_result", Measure: "start to first result (sandpiper exec), p50", Value: median(ours), Unit: "ms", Aim: "150 ms"}.
			withBare(median(bare), ofBare),
	}, nil
}

// memory measures the memory of an idle program as PSS, which divides shared pages
// among the processes.
func (b *bench) memory(ctx context.Context) ([]Row, error) {
	if rig.PSS(os.Getpid()) == 0 {
		return nil, nil // PSS is not available
	}
	size, n, err := b.idle(ctx)
	if err != nil {
		return nil, err
	}
	bare, err := b.idleBare(ctx)
	if err != nil {
		return nil, err
	}
	mb := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
	rows := []Row{
		{Name: "memory_daemon", Measure: "memory when idle (PSS): daemon", Value: mb(size["daemon"]), Unit: "MB", Aim: "40 MB"},
		{Name: "memory_keeper", Measure: "  keeper", Value: mb(size["keeper"]), Unit: "MB"},
		Row{Name: "memory_zygote", Measure: "  zygote", Value: mb(size["zygote"]), Unit: "MB"}.withBare(mb(bare), ofBare),
	}
	if n > 0 {
		rows = append(rows, Row{
			Name: "memory_worker", Measure: fmt.Sprintf("  each of %d idle workers", n),
			Value: mb(size["worker"]) / float64(n), Unit: "MB", Aim: "2.5 MB",
		}.withBare(mb(bare), ofBare))
	}
	return rows, nil
}

// idle measures the memory of a daemon that is idle after some calls, by process kind,
// and counts its workers.
func (b *bench) idle(ctx context.Context) (size map[rig.Part]int64, workers int, err error) {
	d, err := b.rig.Serve(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer d.Close()
	if err := warmUp(ctx, d, nil); err != nil {
		return nil, 0, err
	}
	if err := pause(ctx, choose(b, 2*time.Second, time.Second)); err != nil {
		return nil, 0, err
	}
	size = make(map[rig.Part]int64)
	for _, p := range rig.Tree(d.PID()) {
		size[p.Part] += rig.PSS(p.PID)
		if p.Part == "worker" {
			workers++
		}
	}
	return size, workers, nil
}

// idleBare measures the memory of an idle bare interpreter.
func (b *bench) idleBare(ctx context.Context) (int64, error) {
	c := b.python(ctx, "import sys; print(1, flush=True); sys.stdin.read()")
	in, err := c.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	size := rig.PSS(c.Process.Pid)
	_ = in.Close()
	if waited := c.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Base(b.bare), err)
	}
	return size, nil
}
