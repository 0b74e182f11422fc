package cost

import (
	"fmt"
	"io"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
)

// Print writes the report as text.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "%s tools of %s servers, in tokens (o200k)\n\n", thousands(r.Tools), thousands(r.Servers))
	rows := [][]string{{"input to the model on each request", "tokens", "of direct"},
		{"all definitions, listed directly", thousands(r.Direct), ""}}
	for _, p := range r.Profiles {
		rows = append(rows, []string{fmt.Sprintf("code mode, %s: %d tools", p.Profile, p.Tools), thousands(p.Tokens), r.share(p.Tokens)})
	}
	report.PrintTable(w, rows)
	d := r.Discovery
	if d.Queries == 0 {
		return
	}
	fmt.Fprintln(w)
	report.PrintTable(w, [][]string{
		{"one discovery, on average", "tokens", ""},
		{"list of tools, lean", thousands(d.List), ""},
		{"arguments of the search and of the definition", round(d.Query), ""},
		{"answer of the search, up to 20 tools", round(d.Answer), ""},
		{"definition of one tool", round(d.Definition), ""},
		{"total, divided by the successes", round(d.PerSuccess), fmt.Sprintf("%d of %d", d.Found, d.Queries)},
	})
	fmt.Fprintln(w, "\nnote: queries use the words of the tools' own descriptions; other words find fewer tools")
	fmt.Fprintln(w, "note: other tokenizers give slightly different counts")
}

// share returns n as a percentage of the direct cost.
func (r *Report) share(n int) string {
	if r.Direct == 0 {
		return ""
	}
	share := 100 * float64(n) / float64(r.Direct)
	if share < 10 {
		return fmt.Sprintf("%.2g %%", share)
	}
	return round(share) + " %"
}

func round(v float64) string { return thousands(int(v + 0.5)) }

// thousands formats n with separators, as 1,234,567.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
