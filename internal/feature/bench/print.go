package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
)

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

// Print writes the report as text.
func (r *Report) Print(w io.Writer) {
	head := strings.TrimSpace("sandpiper " + r.Version)
	fmt.Fprintf(w, "%s, %s\n%s\n\n", head, r.Date.Format("2006-01-02 15:04 MST"), r.Machine)
	rows := [][]string{{"measure", "value", "bare", "ratio", "aim"}}
	for _, row := range r.Rows {
		rows = append(rows, row.cells())
	}
	report.PrintTable(w, rows)
	fmt.Fprintln(w)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

func (r Row) cells() []string {
	bare, ratio := "", ""
	if r.Bare != 0 {
		bare = report.Number(r.Bare) + " " + r.Unit
	}
	if r.Ratio != 0 {
		ratio = report.Number(r.Ratio)
		if r.Ratios == timesFaster {
			ratio += "x"
		}
	}
	return []string{r.Measure, report.Number(r.Value) + " " + r.Unit, bare, ratio, r.Aim}
}

// maxLoadShare is the share of the processors that other processes may use before the
// values are unreliable.
const maxLoadShare = 0.25

// notes returns caveats for the interpretation of the values.
func notes(m report.Machine, quick bool) []string {
	list := []string{"bare is the embedded CPython, started for each execution; compare ratios, since absolute times depend on the machine"}
	if m.Load > maxLoadShare*float64(m.Processors) {
		list = append(list, fmt.Sprintf("the machine was busy before the run (load %.2f on %d processors): the values are too high", m.Load,
			m.Processors))
	}
	if quick {
		list = append(list, "a quick run makes few calls; run without --quick to compare")
	}
	return list
}
