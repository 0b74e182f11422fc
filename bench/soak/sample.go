package soak

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/host"
	"github.com/sandpiper-mcp/sandpiper/bench/mix"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// gauge is a resource whose growth indicates a leak.
type gauge struct {
	name  string
	unit  string  // of displayed values; "" means a count
	share float64 // allowed growth relative to the first value
	slack float64 // allowed growth in addition
	each  float64 // allowed growth for each operation
}

const mb = 1 << 20

// gauges lists the values of a Sample in order.
var gauges = []gauge{
	{"memory of all processes (PSS)", "MB", 0.10, 8 * mb, 0},
	{"descriptors of the daemons", "", 0.10, 8, 0},
	{"descriptors of the keepers", "", 0.10, 4, 0},
	{"descriptors of the zygotes", "", 0.10, 4, 0},
	{"processes", "", 0.10, 4, 0},
	{"mounts of the host", "", 0, 2, 0},
	{"mounts of the keepers", "", 0, 2, 0},
	{"cgroups", "", 0.10, 8, 0},
	{"disk", "MB", 0.10, 8 * mb, 600}, // the records of executions are kept
}

// Sample has the values of all gauges at one moment.
type Sample []float64

// watch takes samples until ctx ends.
func (s *soak) watch(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v := s.sample()
		s.mu.Lock()
		s.res.Samples = append(s.res.Samples, v)
		operations, failures := s.number.Load(), s.res.Failures
		s.mu.Unlock()
		if n%12 == 0 {
			s.cfg.Log(fmt.Sprintf("%d operations, %d failures; %.0f MB, %.0f processes", operations, failures, v[0]/mb, v[4]))
		}
	}
}

// sample measures all gauges.
func (s *soak) sample() Sample {
	var memory, daemons, keepers, zygotes, processes, keeperMounts int64
	for _, d := range s.daemons {
		for _, p := range rig.Tree(d.PID()) {
			processes++
			memory += rig.PSS(p.PID)
			switch p.Part {
			case "daemon":
				daemons += int64(host.Descriptors(p.PID))
			case "keeper":
				keepers += int64(host.Descriptors(p.PID))
				keeperMounts += int64(host.Mounts(p.PID))
			case "zygote":
				zygotes += int64(host.Descriptors(p.PID))
			}
		}
	}
	groups := int64(len(host.Groups(host.DaemonNames(s.rig))))
	v := make(Sample, 0, len(gauges))
	for _, n := range []int64{memory, daemons, keepers, zygotes, processes, int64(hostMounts()), keeperMounts, groups,
		host.Disk(s.rig.Data())} {
		v = append(v, float64(n))
	}
	return v
}

func hostMounts() int { return host.Mounts(os.Getpid()) }

// Growth is a gauge that grew.
type Growth struct {
	Name        string
	First, Last float64 // the lowest tenth of a quarter ends there
	Allowed     float64
}

// Rule describes the rule of Growing. It compares low values since memory comes in waves: when
// a zygote is replaced after 10,000 forks, the sessions that it forked keep its pages until they
// end. A leak raises the low values too.
const Rule = "the first tenth, at least 90 s, is ignored; a value grows if the lowest tenth of the last quarter ends above that of the " +
	"first by more than the allowed growth"

// warmUp is how long callers open sessions before the first ones end.
const warmUp = 90 * time.Second

// Growing returns the gauges that grew.
func (r *Result) Growing() (grown []Growth) {
	for i, g := range gauges {
		first, last := r.quarters(i)
		allowed := first*(1+g.share) + r.slack(g)
		if last > allowed {
			grown = append(grown, Growth{g.name, first, last, allowed})
		}
	}
	return grown
}

// slack returns the growth of g that is allowed whatever its first value is.
func (r *Result) slack(g gauge) float64 {
	slack := g.slack
	for _, n := range r.Operations {
		slack += float64(n) * g.each
	}
	return slack
}

func (r *Result) column(i int) []float64 {
	all := make([]float64, len(r.Samples))
	for j, s := range r.Samples {
		all[j] = s[i]
	}
	return all
}

// quarters returns where the lowest tenth of the first and the last quarter of gauge i ends,
// after the warm-up.
func (r *Result) quarters(i int) (first, last float64) {
	all := r.column(i)
	ignored := (len(all) + 9) / 10
	if r.Every > 0 {
		ignored = max(ignored, int(warmUp/r.Every))
	}
	all = all[min(ignored, len(all)):]
	n := len(all) / 4
	if n == 0 {
		return 0, 0
	}
	return low(all[:n]), low(all[len(all)-n:])
}

func low(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/10]
}

// Failed reports whether the run found a problem.
func (r *Result) Failed() bool { return r.Failures > 0 || len(r.Left) > 0 || len(r.Growing()) > 0 }

// Print writes the result as text.
func (r *Result) Print(w io.Writer) {
	fmt.Fprintf(w, "saturation %.0f operations a second, soaked at %.0f", r.Saturation, r.Rate)
	if r.Skipped > 0 {
		fmt.Fprintf(w, ", of which %d were skipped because all callers were busy", r.Skipped)
	}
	fmt.Fprintln(w)
	for _, q := range mix.All {
		fmt.Fprintf(w, "  %-10s %7d\n", q.Name, r.Operations[q.Name])
	}
	fmt.Fprintf(w, "wrong results and errors: %d\n\n", r.Failures)
	for _, e := range r.Examples {
		fmt.Fprintf(w, "  %.300s\n", e)
	}
	r.printGauges(w)
	for _, g := range r.Growing() {
		fmt.Fprintf(w, "GROWN: %s from %.0f to %.0f, allowed %.0f\n", g.Name, g.First, g.Last, g.Allowed)
	}
	for _, l := range r.Left {
		fmt.Fprintf(w, "LEFT BEHIND: %s\n", l)
	}
}

func (r *Result) printGauges(w io.Writer) {
	if len(r.Samples) == 0 {
		fmt.Fprintln(w, "the run was too short for a sample")
		return
	}
	rows := [][]string{{"", "first", "last", "max", "first quarter", "last quarter", "growth allowed"}}
	for i, g := range gauges {
		unit, all := 1.0, r.column(i)
		if g.unit == "MB" {
			unit = mb
		}
		first, last := r.quarters(i)
		row := []string{g.name}
		for _, v := range []float64{all[0], all[len(all)-1], slices.Max(all), first, last} {
			row = append(row, fmt.Sprintf("%.0f %s", v/unit, g.unit))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.0f%% + %.0f %s", g.share*100, r.slack(g)/unit, g.unit)))
	}
	report.PrintTable(w, rows)
	fmt.Fprintf(w, "%d samples; %s\n", len(r.Samples), Rule)
}
