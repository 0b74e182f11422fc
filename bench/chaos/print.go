package chaos

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// columns of the table: daemons killed before the first write, during a call, after its effect, between
// two writes and after the end of the work; calls that a person decided about, work that began again
// since none of it was on record, approvals of calls that had been approved and not sent since; problems.
var columns = strings.Fields("rounds kills before call effect between ended unknown again reapproved lost doubled stuck reported " +
	"failed left")

// Result of a run.
type Result struct {
	Kinds    []string
	Counts   map[string]map[string]int // by kind and column
	Problems []string
}

// Print writes the result as a table, and the problems.
func (r *Result) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "kind\t%s\t\n", strings.Join(columns, "\t"))
	for _, kind := range r.Kinds {
		fmt.Fprint(t, kind, "\t")
		for _, c := range columns {
			fmt.Fprint(t, r.Counts[kind][c], "\t")
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	for _, p := range r.Problems {
		fmt.Fprintln(w, p)
	}
}
