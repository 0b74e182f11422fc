package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// Config of a run.
type Config struct {
	Version string // of the program, for the report; "" is omitted
	Quick   bool   // a few seconds instead of most of a minute, and less precise
	// Progress is called with the name of each measurement; nil discards it.
	Progress func(what string)
}

// Report is the result of a run.
type Report struct {
	Version string         `json:"version,omitempty"`
	Date    time.Time      `json:"date"`
	Quick   bool           `json:"quick"`
	Machine report.Machine `json:"machine"`
	Rows    []Row          `json:"rows"`
	Notes   []string       `json:"notes"` // caveats for the interpretation of the values
}

// measures lists the measurements in the order in which they run. The first one
// installs Python for the others.
var measures = []struct {
	what    string
	measure func(*bench, context.Context) ([]Row, error)
}{
	{"the very first start", (*bench).veryFirstStart},
	{"starts", (*bench).start},
	{"warm calls", served((*bench).warmCalls)},
	{"calls in a session", served((*bench).sessionCalls)},
	{"calls over HTTP", (*bench).httpCalls},
	{"saturated calls", served((*bench).saturated)},
	{"the data job", served((*bench).dataJob)},
	{"calls from Python to the host", served((*bench).hostCalls)},
	{"calls of a tool", (*bench).upstreamCalls},
	{"large answers of a tool", (*bench).bulk},
	{"memory", (*bench).memory},
}

// served returns a measurement of a daemon that is started for it.
func served(measure func(*bench, context.Context, *rig.Daemon) ([]Row, error)) func(*bench, context.Context) ([]Row, error) {
	return func(b *bench, ctx context.Context) ([]Row, error) {
		d, err := b.rig.Serve(ctx)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return measure(b, ctx, d)
	}
}

// Run measures this program. It returns an error if this machine cannot execute code.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	dir, err := os.MkdirTemp("", "sandpiper-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	b := &bench{rig: rig.New(rig.Config{Binary: program, Dir: dir}), quick: cfg.Quick}
	r := &Report{Version: cfg.Version, Date: time.Now().UTC().Truncate(time.Second), Quick: cfg.Quick, Machine: report.ThisMachine()}
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
