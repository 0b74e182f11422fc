package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
)

func TestPrint(t *testing.T) {
	r := &Report{
		Version: "v1.2.3", Date: time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC),
		Machine: report.Machine{
			System:     "linux/amd64",
			Kernel:     "6.18",
			Processor:  "AMD EPYC",
			Processors: 2,
			User:       "root",
			Load:       0.1,
		},
		Rows: []Row{
			Row{Measure: "warm 1+1", Value: 0.8512, Unit: "ms", Aim: "0.7 ms"}.withBare(11.8, timesFaster),
			Row{Measure: "executions", Value: 371, Unit: "/s"}.withBare(106, timesFaster),
			Row{Measure: "data job", Value: 120.4, Unit: "ms", Aim: "1.05 of bare"}.withBare(160, ofBare),
			Row{Measure: "  zygote", Value: 8.2, Unit: "MB"}.withBare(0, ofBare),
		},
		Notes: []string{"read the ratios"},
	}
	var b strings.Builder
	r.Print(&b)
	want := `sandpiper v1.2.3, 2026-11-21 10:30 UTC
linux/amd64 6.18, 2 processors (AMD EPYC), root, load 0.10

measure       value     bare  ratio  aim
warm 1+1    0.85 ms  11.8 ms  13.9x  0.7 ms
executions   371 /s   106 /s  3.50x
data job     120 ms   160 ms   0.75  1.05 of bare
  zygote    8.20 MB

note: read the ratios
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNotesMentionLoad(t *testing.T) {
	text := func(load float64, quick bool) string {
		return strings.Join(notes(report.Machine{Processors: 4, Load: load}, quick), "\n")
	}
	if got := text(0.9, false); strings.Contains(got, "busy") || strings.Contains(got, "--quick") {
		t.Errorf("notes of an idle machine: %s", got)
	}
	if got := text(1.1, true); !strings.Contains(got, "busy before the run (load 1.10 on 4 processors)") || !strings.Contains(got,
		"--quick") {
		t.Errorf("notes of a quick run on a busy machine: %s", got)
	}
}

func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := 100; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	got := []float64{percentile(times, 0), median(times), percentile(times, 99), percentile(times, 100), percentile(nil, 50)}
	if diff := cmp.Diff([]float64{1, 51, 100, 100, 0}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if times[0] != 100*time.Millisecond {
		t.Error("percentile changed the order of its argument")
	}
}
