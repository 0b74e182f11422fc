package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// These benchmarks drive the built program as a client does, and measure a bare
// interpreter of the same CPython in the same run, so that the ratios mean
// something on any machine. scripts/bench runs them and prints the table.

// rig is a built program with data and cache directories of its own.
type rig struct {
	b      *testing.B
	binary string
	env    []string
	python string // the bare interpreter
}

func newRig(b *testing.B) *rig {
	b.Helper()
	dir := b.TempDir()
	r := &rig{b: b, binary: filepath.Join(dir, "sandpiper")}
	if out, err := exec.Command("go", "build", "-o", r.binary, ".").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	r.env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(dir, "data"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	if out, err := r.command("exec", "-c", "1+1").CombinedOutput(); err != nil {
		b.Skipf("this machine has no sandbox: %s", out)
	}
	in, err := python.Install(b.Context(), python.Config{Dir: filepath.Join(dir, "cache", "sandpiper", "python"), Overlay: worker.Python()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close() })
	r.python = filepath.Join(in.Dir(), "bin", "python3.14")
	return r
}

func (r *rig) command(args ...string) *exec.Cmd {
	c := exec.Command(r.binary, args...)
	c.Env = r.env
	return c
}

// bare times the interpreter alone, started anew for each piece of code.
func (r *rig) bare(n int, code string) []time.Duration {
	var times []time.Duration
	for range n {
		start := time.Now()
		if out, err := exec.Command(r.python, "-I", "-S", "-c", code).CombinedOutput(); err != nil {
			r.b.Fatalf("%v: %s", err, out)
		}
		times = append(times, time.Since(start))
	}
	return times
}

// client is one MCP connection over stdio.
type client struct {
	b     *testing.B
	cmd   *exec.Cmd
	in    io.WriteCloser
	mu    sync.Mutex
	next  int
	calls map[int]chan json.RawMessage
}

func (r *rig) serve() *client {
	r.b.Helper()
	c := &client{b: r.b, cmd: r.command("serve"), calls: map[int]chan json.RawMessage{}}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		r.b.Fatal(err)
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		r.b.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		r.b.Fatal(err)
	}
	go c.listen(out)
	r.b.Cleanup(func() { c.in.Close(); _ = c.cmd.Wait() })
	c.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "bench", "version": "1"}})
	c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return c
}

func (c *client) listen(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var m struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(s.Bytes(), &m) != nil {
			continue
		}
		c.mu.Lock()
		ch := c.calls[m.ID]
		delete(c.calls, m.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- bytes.Clone(m.Result)
		}
	}
}

func (c *client) write(v any) {
	line, _ := json.Marshal(v)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.in.Write(append(line, '\n'))
}

func (c *client) request(method string, params any) json.RawMessage {
	ch := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.calls[id] = ch
	c.mu.Unlock()
	c.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return <-ch
}

// execute runs code and returns the answer's text.
func (c *client) execute(code string) string {
	raw := c.request("tools/call", map[string]any{"name": "execute_code", "arguments": map[string]any{"code": code}})
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 || r.IsError {
		c.b.Errorf("execute_code answered %s", raw)
		return ""
	}
	return r.Content[0].Text
}

func percentile(times []time.Duration, p int) float64 {
	slices.Sort(times)
	return float64(times[min(len(times)-1, len(times)*p/100)].Microseconds()) / 1000
}

// BenchmarkWarmCall: `1+1` over stdio, one call every 20 ms.
func BenchmarkWarmCall(b *testing.B) {
	r := newRig(b)
	c := r.serve()
	c.execute("1+1")
	time.Sleep(time.Second)
	var times, bare []time.Duration
	for b.Loop() {
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		c.execute("1+1")
		times = append(times, time.Since(start))
		if len(times)%5 == 0 {
			bare = append(bare, r.bare(1, "print(1+1)")...)
		}
	}
	if len(bare) == 0 {
		bare = r.bare(5, "print(1+1)")
	}
	b.ReportMetric(percentile(times, 50), "p50-ms")
	b.ReportMetric(percentile(times, 99), "p99-ms")
	b.ReportMetric(percentile(bare, 50), "bare-p50-ms")
	b.ReportMetric(percentile(bare, 50)/percentile(times, 50), "x-faster")
}

// BenchmarkSaturatedCalls: as many `1+1` as go through, by the number of callers.
func BenchmarkSaturatedCalls(b *testing.B) {
	r := newRig(b)
	for _, callers := range []int{1, 2, 8, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := r.serve()
			c.execute("1+1")
			var wg sync.WaitGroup
			work := make(chan int)
			b.ResetTimer()
			start := time.Now()
			for range callers {
				wg.Go(func() {
					for i := range work {
						if got := c.execute(fmt.Sprintf("%d+1", i)); !strings.Contains(got, fmt.Sprintf(`"result":%d,`, i+1)) {
							b.Errorf("%d+1 was answered %s", i, got)
						}
					}
				})
			}
			for i := range b.N {
				work <- i
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "executions/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const dataJob = `
import json, resource, time
began = time.perf_counter()
with open(PATH) as f:
    rows = json.load(f)
active = [r for r in rows if r["status"] == "active" and r["amount"] > 100]
by = {}
for r in active:
    by.setdefault(r["region"], []).append(r["amount"])
found = {k: [len(v), round(sum(v) / len(v), 2), max(v)] for k, v in sorted(by.items())}
took = (time.perf_counter() - began) * 1000
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
`

// BenchmarkDataJob: 20 MB of JSON, 100,000 records, filtered and aggregated,
// beside the bare interpreter. The time is that of the whole call and process.
func BenchmarkDataJob(b *testing.B) {
	r := newRig(b)
	file := filepath.Join(b.TempDir(), "records.json")
	writeRecords(b, file)
	if out, err := r.command("files", "put", file).CombinedOutput(); err != nil {
		b.Fatalf("files put: %v %s", err, out)
	}
	inside := strings.Replace(dataJob, "PATH", `"records.json"`, 1) + "result = [took, peak]"
	outside := strings.Replace(dataJob, "PATH", strconv.Quote(file), 1) + "print(json.dumps([took, peak]))"
	c := r.serve()
	c.execute("1+1")
	var ours, theirs []time.Duration
	var ourPeak, theirPeak float64
	for b.Loop() {
		start := time.Now()
		var a struct{ Result []float64 }
		_ = json.Unmarshal([]byte(c.execute(inside)), &a)
		ours = append(ours, time.Since(start))
		start = time.Now()
		out, err := exec.Command(r.python, "-I", "-S", "-c", outside).Output()
		if err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, time.Since(start))
		var p []float64
		if json.Unmarshal(out, &p) != nil || len(p) != 2 || len(a.Result) != 2 {
			b.Fatalf("answers: %s %v", out, a)
		}
		ourPeak, theirPeak = max(ourPeak, a.Result[1]), max(theirPeak, p[1])
	}
	b.ReportMetric(percentile(ours, 50), "p50-ms")
	b.ReportMetric(percentile(theirs, 50), "bare-p50-ms")
	b.ReportMetric(percentile(ours, 50)/percentile(theirs, 50), "x-time")
	b.ReportMetric(ourPeak/theirPeak, "x-memory")
}

func writeRecords(b *testing.B, file string) {
	var w bytes.Buffer
	w.WriteString("[")
	for i := range 100_000 {
		if i > 0 {
			w.WriteString(",\n")
		}
		fmt.Fprintf(&w, `{"id":%d,"status":%q,"region":%q,"amount":%d.%02d,"customer":"customer-%05d","note":%q}`, i,
			[]string{"active", "closed", "new"}[i%3], []string{"north", "south", "east", "west"}[i%4], i%997, i%100, i%5000,
			strings.Repeat("lorem ipsum ", 6+i%5))
	}
	w.WriteString("]")
	if err := os.WriteFile(file, w.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFirstResult: from the start of the program to the first result, with
// Python installed, and the very first start, which installs it.
func BenchmarkFirstResult(b *testing.B) {
	r := newRig(b)
	b.Run("installed", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			start := time.Now()
			if out, err := r.command("exec", "-c", "1+1").CombinedOutput(); err != nil {
				b.Fatalf("%v %s", err, out)
			}
			times = append(times, time.Since(start))
		}
		b.ReportMetric(percentile(times, 50), "p50-ms")
	})
	b.Run("very-first", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			fresh := *r
			fresh.env = append(slices.Clone(r.env), "XDG_CACHE_HOME="+b.TempDir(), "XDG_DATA_HOME="+b.TempDir())
			start := time.Now()
			if out, err := fresh.command("exec", "-c", "1+1").CombinedOutput(); err != nil {
				b.Fatalf("%v %s", err, out)
			}
			times = append(times, time.Since(start))
		}
		b.ReportMetric(percentile(times, 50), "p50-ms")
	})
}

// BenchmarkMemory: proportional set sizes of an idle daemon, its keeper, its
// zygote and its waiting workers.
func BenchmarkMemory(b *testing.B) {
	r := newRig(b)
	c := r.serve()
	for b.Loop() {
		c.execute("1+1")
	}
	time.Sleep(2 * time.Second)
	var daemon, keeper, zygote, workers float64
	n := 0
	for i, pid := range tree(c.cmd.Process.Pid) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		size := pss(pid)
		switch {
		case i == 0:
			daemon = size
		case bytes.HasPrefix(name, []byte("sandpiper-sandbox-keeper")):
			keeper = size
		case zygote == 0:
			zygote = size
		default:
			workers, n = workers+size, n+1
		}
	}
	b.ReportMetric(daemon, "daemon-MB")
	b.ReportMetric(keeper, "keeper-MB")
	b.ReportMetric(zygote, "zygote-MB")
	if n > 0 {
		b.ReportMetric(workers/float64(n), "worker-MB")
	}
	b.ReportMetric(float64(n), "workers")
}

func tree(pid int) []int {
	pids := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		children, _ := os.ReadFile(t)
		for child := range strings.FieldsSeq(string(children)) {
			n, _ := strconv.Atoi(child)
			pids = append(pids, tree(n)...)
		}
	}
	return pids
}

func pss(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}
