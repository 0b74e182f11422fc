package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/job"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// peakMemory assigns the maximum memory of the process in KiB to `peak`.
const peakMemory = `import resource
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
`

// dataJob runs the job on 20 MB of JSON with 100,000 records. It measures the whole
// call and the whole bare process.
func (b *bench) dataJob(ctx context.Context, d *rig.Daemon) ([]Row, error) {
	file := filepath.Join(b.rig.Dir(), "records.json")
	if err := job.WriteRecords(file); err != nil {
		return nil, err
	}
	if _, err := b.rig.Run(ctx, "files", "put", file); err != nil {
		return nil, err
	}
	if err := warmUp(ctx, d, nil); err != nil {
		return nil, err
	}
	inside := strings.Replace(job.Code, "PATH", `"records.json"`, 1) + peakMemory + "result = [found, peak]"
	outside := strings.Replace(job.Code, "PATH", strconv.Quote(file), 1) + peakMemory + "print(json.dumps([found, peak]))"
	var ours, theirs jobs
	for range choose(b, 12, 3) {
		began := time.Now()
		x, err := d.Execute(ctx, inside, nil)
		if err := ours.add(time.Since(began), x.Result, err); err != nil {
			return nil, err
		}
		began = time.Now()
		out, err := b.python(ctx, outside).Output()
		if err := theirs.add(time.Since(began), out, err); err != nil {
			return nil, err
		}
	}
	if !bytes.Equal(ours.found, theirs.found) {
		return nil, fmt.Errorf("the result of the data job is %s; that of the bare interpreter is %s", ours.found, theirs.found)
	}
	return []Row{
		Row{Name: "data_job", Measure: "data job, 20 MB of JSON, p50", Value: median(ours.times), Unit: "ms", Aim: "1.05 of bare"}.
			withBare(median(theirs.times), ofBare),
		Row{Name: "data_job_memory", Measure: "  its maximum memory", Value: ours.peakMemory, Unit: "MB", Aim: "1.1 of bare"}.
			withBare(theirs.peakMemory, ofBare),
	}, nil
}

// jobs accumulates the measurements of one side.
type jobs struct {
	times      []time.Duration
	found      json.RawMessage
	peakMemory float64 // MB
}

func (j *jobs) add(took time.Duration, answer []byte, err error) error {
	if err != nil {
		return err
	}
	var values [2]json.RawMessage
	var peakMemory float64
	if err = json.Unmarshal(answer, &values); err == nil {
		err = json.Unmarshal(values[1], &peakMemory)
	}
	if err != nil {
		return fmt.Errorf("the data job returned %.200q: %w", answer, err)
	}
	var found bytes.Buffer
	if err := json.Compact(&found, values[0]); err != nil {
		return err
	}
	j.times, j.found, j.peakMemory = append(j.times, took), found.Bytes(), max(j.peakMemory, peakMemory/1024)
	return nil
}

// timingLoop is Python code that assigns the median duration of `call` in µs to
// `result`.
const timingLoop = `import time
times = []
for _ in range(N):
    began = time.perf_counter_ns()
    call()
    times.append(time.perf_counter_ns() - began)
result = sorted(times)[N // 2] / 1000
`

// pingPong is the minimum cost of an interprocess call: one byte in each direction.
const pingPong = `import os
(r1, w1), (r2, w2) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(w1)
    while os.read(r1, 1): os.write(w2, b"x")
    os._exit(0)
def call():
    os.write(w1, b"x")
    os.read(r2, 1)
`

// Definitions of `call` for timingLoop. The host rejects the first without any work,
// so that it measures the round trip. The second reads a row of the tenant's database.
const (
	failingCall = `def call():
    try: load_skill("-")
    except Exception: pass
`
	loadCall = `save_skill("bench", "x = 1")
def call(): load_skill("bench")
`
)

// hostCalls measures calls from running code to the host.
func (b *bench) hostCalls(ctx context.Context, d *rig.Daemon) ([]Row, error) {
	loop := strings.ReplaceAll(timingLoop, "N", strconv.Itoa(choose(b, 20_000, 2_000)))
	out, err := b.python(ctx, pingPong+loop+"print(result)").Output()
	if err != nil {
		return nil, err
	}
	bare, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		return nil, err
	}
	rows := []Row{
		{Name: "host_call", Measure: "call from code to the host, p50; bare: one byte by pipe", Unit: "µs", Aim: "30 µs"},
		{Name: "load_skill", Measure: "  the same, reading a row of SQLite", Unit: "µs"},
	}
	for i, call := range []string{failingCall, loadCall} {
		x, err := d.Execute(ctx, call+loop, nil)
		if err == nil && !x.Success {
			err = fmt.Errorf("the calls to the host failed: %s", x.Error)
		}
		if err == nil {
			rows[i].Value, err = strconv.ParseFloat(string(x.Result), 64)
		}
		if err != nil {
			return nil, err
		}
		rows[i] = rows[i].withBare(bare, ofBare)
	}
	return rows, nil
}
