// Package bench measures the performance of the program on the current machine.
//
// A row has a measured value and, where possible, the same for a bare interpreter
// (the embedded CPython without a sandbox, in the same run), their ratio, and a
// target. Ratios are more meaningful than absolute times, which depend on the machine
// and its load. A slow result is not an error.
//
// The program runs in temporary directories and is driven over MCP and by commands.
// Only one Run may be active at a time. Package soak tests stability over time, and
// package chaos tests crashes.
package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// Config of a run.
type Config struct {
	Binary  string // the program to measure; required
	Version string // of the program, for the report; "" is omitted
	Quick   bool   // a few seconds instead of most of a minute, and less precise
	// Progress is called with the name of each measurement; nil discards it.
	Progress func(what string)
}

// Report is the result of a run.
type Report struct {
	Version string    `json:"version,omitempty"`
	Date    time.Time `json:"date"`
	Quick   bool      `json:"quick"`
	Machine Machine   `json:"machine"`
	Rows    []Row     `json:"rows"`
	Notes   []string  `json:"notes"` // caveats for the interpretation of the values
}

// Row is one measure.
type Row struct {
	Name    string  `json:"name"`    // stable identifier
	Measure string  `json:"measure"` // description for people
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`            // ms, µs, /s or MB
	Bare    float64 `json:"bare,omitempty"`  // of the bare interpreter, in Unit; 0 if there is none
	Ratio   float64 `json:"ratio,omitempty"` // of both values; 0 if there is none
	Ratios  string  `json:"ratio_is,omitempty"`
	Aim     string  `json:"aim,omitempty"`
}

// The kinds of ratio.
const (
	timesFaster = "x faster" // bare / value of times, value / bare of rates
	ofBare      = "of bare"  // value / bare
)

// withBare adds the value of the bare interpreter.
func (r Row) withBare(bare float64, is string) Row {
	r.Bare, r.Ratios = bare, is
	switch {
	case bare == 0 || r.Value == 0:
		r.Ratio, r.Ratios = 0, ""
	case is == timesFaster && r.Unit != "/s":
		r.Ratio = bare / r.Value
	default:
		r.Ratio = r.Value / bare
	}
	return r
}

// measures lists the measurements in the order in which they run. The first one
// installs Python for the others.
var measures = []struct {
	what    string
	measure func(*bench, context.Context) ([]Row, error)
}{
	{"the very first start", (*bench).veryFirstStart},
	{"starts", (*bench).start},
	{"warm calls", (*bench).warmCalls},
	{"calls in a session", (*bench).sessionCalls},
	{"calls over HTTP", (*bench).httpCalls},
	{"saturated calls", (*bench).saturated},
	{"the data job", (*bench).dataJob},
	{"calls from Python to the host", (*bench).hostCalls},
	{"calls of a tool", (*bench).upstreamCalls},
	{"large answers of a tool", (*bench).bulk},
	{"memory", (*bench).memory},
}

// bench is one run.
type bench struct {
	rig   *rig.Rig
	quick bool
	bare  string // path of the bare interpreter, once Python is installed
	done  func() error
}

// Run runs all measurements. It returns an error if this machine cannot execute code.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	dir, err := os.MkdirTemp("", "sandpiper-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{rig: rig.New(rig.Config{Binary: cfg.Binary, Dir: dir}), quick: cfg.Quick, done: func() error { return nil }}
	defer func() { err = errors.Join(err, b.done(), os.RemoveAll(dir)) }()
	r := &Report{Version: cfg.Version, Date: time.Now().UTC().Truncate(time.Second), Quick: cfg.Quick, Machine: ThisMachine()}
	r.Notes = notes(r.Machine, cfg.Quick)
	for _, m := range measures {
		if cfg.Progress != nil {
			cfg.Progress(m.what)
		}
		rows, err := m.measure(b, ctx)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, rows...)
	}
	return r, nil
}

// choose returns quick in a quick run, and otherwise whole.
func choose[T any](b *bench, whole, quick T) T {
	if b.quick {
		return quick
	}
	return whole
}

// python returns a command that runs code in the bare interpreter.
func (b *bench) python(ctx context.Context, code string) *exec.Cmd {
	return exec.CommandContext(ctx, b.bare, "-I", "-S", "-c", code)
}

// timeBare measures one start of the bare interpreter with code.
func (b *bench) timeBare(ctx context.Context, code string) (time.Duration, error) {
	began := time.Now()
	_, err := b.python(ctx, code).Output()
	return time.Since(began), err
}
