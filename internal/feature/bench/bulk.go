package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// bulkAnswer is one answer whose transfer is measured.
type bulkAnswer struct {
	name, measure, tool string
	bytes               int
	aim                 string
}

var bulkAnswers = []bulkAnswer{
	{"bulk_text_100kb", "100 KB answer into Python; bare: a plain client and json.loads", "rows_as_text", 100_000, ""},
	{"bulk_text_1mb", "1 MB answer into Python", "rows_as_text", 1_000_000, "90 ms, 2 of bare"},
	{"bulk_json_1mb", "  the same as structured content", "rows_as_json", 1_000_000, "90 ms, 2 of bare"},
	{"bulk_text_10mb", "10 MB answer into Python", "rows_as_text", 10_000_000, "2 of bare"},
}

const callForRows = `import time
call_tool("rows", %q, bytes=10)
began = time.perf_counter()
rows = call_tool("rows", %[1]q, bytes=%d)["rows"]
result = [time.perf_counter() - began, len(rows)]
`

const loadRows = `import json, time
with open(%q) as f:
    text = f.read()
times = []
for _ in range(5):
    began = time.perf_counter()
    rows = json.loads(text)
    times.append(time.perf_counter() - began)
    del rows
print(sorted(times)[2])
`

// bulk measures large answers of an upstream tool until they are objects in Python, and
// a plain client of the same server together with json.loads of the same text.
func (b *bench) bulk(ctx context.Context) ([]Row, error) {
	config, err := b.serverConfig("rows", map[string]any{"command": b.rig.Binary(), "args": []string{"bench", rowsServer}})
	if err != nil {
		return nil, err
	}
	d, err := b.rig.Serve(ctx, "--config", config)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	direct, err := b.rig.Start(ctx, b.rig.Command(ctx, "bench", rowsServer))
	if err != nil {
		return nil, err
	}
	defer direct.Close()
	var rows []Row
	for _, a := range bulkAnswers {
		loading, err := b.loadTime(ctx, a.bytes)
		if err != nil {
			return nil, err
		}
		ours, bare, err := inTurns(choose(b, 9, 3),
			func() (time.Duration, error) { return rowsFromCode(ctx, d, a) },
			func() (time.Duration, error) { return rowsFromClient(ctx, direct.Client, a) })
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{Name: a.name, Measure: a.measure, Value: median(ours), Unit: "ms",
			Aim: a.aim}.withBare(median(bare)+ms(loading), ofBare))
	}
	return rows, nil
}

// loadTime measures json.loads in the bare interpreter.
func (b *bench) loadTime(ctx context.Context, size int) (time.Duration, error) {
	file := filepath.Join(b.rig.Dir(), "rows.json")
	if err := os.WriteFile(file, makeRows(size), 0o600); err != nil {
		return 0, err
	}
	out, err := b.python(ctx, fmt.Sprintf(loadRows, file)).Output()
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.ParseFloat(string(out[:len(out)-1]), 64)
	return time.Duration(seconds * float64(time.Second)), err
}

func rowsFromCode(ctx context.Context, d *rig.Daemon, a bulkAnswer) (time.Duration, error) {
	x, err := d.Execute(ctx, fmt.Sprintf(callForRows, a.tool, a.bytes), nil)
	if err != nil {
		return 0, err
	}
	var times [2]float64
	if err := json.Unmarshal(x.Result, &times); err != nil || times[1] == 0 {
		return 0, fmt.Errorf("an answer of %d bytes returned %.200s (%s)", a.bytes, x.Result, x.Error)
	}
	return time.Duration(times[0] * float64(time.Second)), nil
}

func rowsFromClient(ctx context.Context, c *rig.Client, a bulkAnswer) (time.Duration, error) {
	began := time.Now()
	res, err := c.Call(ctx, a.tool, rig.Args{"bytes": a.bytes})
	if err == nil && (res.Failed || len(res.Text)+len(res.Structured) < a.bytes) {
		err = fmt.Errorf("%s failed: %.200s", a.tool, res.Text)
	}
	return time.Since(began), err
}
