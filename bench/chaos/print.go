package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Print writes the result as text.
func (r *Result) Print(w io.Writer) {
	fmt.Fprintf(w, "daemons killed       %7d\n", r.Rounds)
	for _, k := range slices.Sorted(maps.Keys(r.Acknowledged)) {
		fmt.Fprintf(w, "acknowledged %-7s %7d\n", k, r.Acknowledged[k])
	}
	fmt.Fprintf(w, "values checked       %7d\n", r.Checked)
	fmt.Fprintf(w, "in flight at a kill  %7d\n", r.InFlight)
	fmt.Fprintf(w, "scratch files left by killed code %d\n", r.Scratch)
	for _, found := range []struct {
		what string
		list []string
	}{{"lost", r.Lost}, {"half-written", r.Torn}, {"left behind", r.Left}, {"others disturbed", r.Disturbed}} {
		fmt.Fprintf(w, "%-20s %7d\n", found.what, len(found.list))
		for _, line := range found.list[:min(20, len(found.list))] {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
}

// acknowledged returns the numbers of acknowledged writes on one line.
func (r *Result) acknowledged() string {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(r.Acknowledged)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", r.Acknowledged[k], k))
	}
	return strings.Join(kinds, ", ")
}
