package chaos

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Result of a run.
type Result struct{ Rows []*Row }

// Row is the result of the rounds of one kind.
type Row struct {
	Kind           string
	Rounds, Kills  int
	Unknown, Fresh int                 // calls that a person decided about; work that began again, since none of it was on record
	Reapproved     int                 // approvals of calls that had been approved, and not sent since
	Phases         map[string]int      // kills by the state of the last write
	Problems       map[string][]string // by what is wrong
}

var (
	phases = []string{"before", "call", "effect", "between", "ended"}
	wrong  = []string{"lost", "doubled", "stuck", "reported", "failed", "left"}
)

func (r *Result) row(kind string) *Row {
	for _, row := range r.Rows {
		if row.Kind == kind {
			return row
		}
	}
	r.Rows = append(r.Rows, &Row{Kind: kind, Phases: map[string]int{}, Problems: map[string][]string{}})
	return r.Rows[len(r.Rows)-1]
}

func (r *Result) addLeft(what string, n int) {
	if n > 0 {
		row := r.row("all")
		row.Problems["left"] = append(row.Problems["left"], fmt.Sprintf("left: %d %s", n, what))
	}
}

// Failed reports whether the run found a problem.
func (r *Result) Failed() bool {
	for _, row := range r.Rows {
		if len(row.Problems) > 0 {
			return true
		}
	}
	return false
}

// Print writes the result as a table: the daemons killed before the first write, during a call, after
// its effect, between two writes and after the end of the work, and the problems.
func (r *Result) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "kind\trounds\tkills\t%s\tunknown\tagain\treapproved\t%s\t\n", strings.Join(phases, "\t"), strings.Join(wrong, "\t"))
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t", row.Kind, row.Rounds, row.Kills)
		for _, p := range phases {
			fmt.Fprintf(t, "%d\t", row.Phases[p])
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t", row.Unknown, row.Fresh, row.Reapproved)
		for _, what := range wrong {
			fmt.Fprintf(t, "%d\t", len(row.Problems[what]))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	for _, row := range r.Rows {
		for _, what := range wrong {
			for _, text := range row.Problems[what] {
				fmt.Fprintf(w, "%s: %s\n", row.Kind, text)
			}
		}
	}
}
