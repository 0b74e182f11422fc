// Package bench measures the program on the machine it runs on.
//
// A row is one measure: a value, the same of a bare interpreter (the embedded
// CPython started without anything around it, in the same run) where there is
// such a thing, how both compare, and what is aimed at. Read the ratios: absolute
// times say as much about the machine and what else it does as about us. Nothing
// here fails because something is slow.
//
// The program is driven from outside, over MCP and by commands, in directories of
// its own that are removed afterwards. Run is called once at a time. How long
// something holds up, and whether it survives, is for the rooms soak and chaos.
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
	Version string // of it, for the report; "" is not shown
	Quick   bool   // a few seconds instead of most of a minute, and less exact
	// Progress is told what is measured next; nil means silence.
	Progress func(what string)
}

// Report is what came of a run.
type Report struct {
	Version string    `json:"version,omitempty"`
	Date    time.Time `json:"date"`
	Quick   bool      `json:"quick"`
	Machine Machine   `json:"machine"`
	Rows    []Row     `json:"rows"`
	Notes   []string  `json:"notes"` // what to know before believing the values
}

// Row is one measure.
type Row struct {
	Name    string  `json:"name"`    // the same in every version
	Measure string  `json:"measure"` // for a person
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`            // ms, µs, /s or MB
	Bare    float64 `json:"bare,omitempty"`  // of the bare interpreter, same unit; 0 if there is none
	Ratio   float64 `json:"ratio,omitempty"` // of both; 0 if there is none
	Ratios  string  `json:"ratio_is,omitempty"`
	Aim     string  `json:"aim,omitempty"`
}

// What a ratio is.
const (
	timesFaster = "x faster" // bare / value of times, value / bare of rates
	ofBare      = "of bare"  // value / bare
)

// beside adds what a bare interpreter needs.
func (r Row) beside(bare float64, is string) Row {
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

// measures in the order in which they are made and shown. The first installs
// Python for the others.
var measures = []struct {
	what string
	take func(*bench, context.Context) ([]Row, error)
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
	{"memory", (*bench).memory},
}

// bench is one run.
type bench struct {
	rig   *rig.Rig
	quick bool
	bare  string // the bare interpreter, once Python is installed
	done  func() error
}

// Run measures everything. It fails if code cannot be executed here.
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
		rows, err := m.take(b, ctx)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, rows...)
	}
	return r, nil
}

// choose returns what fits the length of the run.
func choose[T any](b *bench, whole, quick T) T {
	if b.quick {
		return quick
	}
	return whole
}

// python is the bare interpreter with a piece of code.
func (b *bench) python(ctx context.Context, code string) *exec.Cmd {
	return exec.CommandContext(ctx, b.bare, "-I", "-S", "-c", code)
}

// timeBare times the bare interpreter, started for one piece of code.
func (b *bench) timeBare(ctx context.Context, code string) (time.Duration, error) {
	began := time.Now()
	_, err := b.python(ctx, code).Output()
	return time.Since(began), err
}
