package soak

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/build"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// TestRun is too short to detect growth. It checks that operations run, that their
// results are correct, and that every gauge has a value.
func TestRun(t *testing.T) {
	longtest.Skip(t)
	binary, err := build.Program(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Config{Binary: binary, Duration: 5 * time.Second, Every: time.Second / 2})
	if fault.KindOf(err) == fault.Unavailable && os.Getenv("REQUIRE_SANDBOX") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Failures > 0 {
		t.Errorf("%d failures: %q", r.Failures, r.Examples)
	}
	if len(r.Left) > 0 {
		t.Errorf("left behind: %q", r.Left)
	}
	if r.Operations["sum"] == 0 || r.Operations["file"] == 0 || r.Rate <= 0 {
		t.Errorf("operations %v at %g a second", r.Operations, r.Rate)
	}
	if len(r.Samples) == 0 {
		t.Fatal("there is no sample")
	}
	for i, g := range gauges {
		if g.name != "cgroups" && r.Samples[0][i] == 0 {
			t.Errorf("%s is 0", g.name)
		}
	}
	var b strings.Builder
	r.Print(&b)
	if !strings.Contains(b.String(), "wrong results and errors: 0\n") || !strings.Contains(b.String(), "\ndescriptors of the zygotes ") {
		t.Errorf("printed:\n%s", &b)
	}
}

func TestGrowing(t *testing.T) {
	// value of one gauge over time, all others flat
	series := func(gauge int, at func(i int) float64) *Result {
		r := &Result{Operations: map[string]int{"sum": 50_000, "file": 50_000}, Every: 5 * time.Second}
		for i := range 100 {
			s := make(Sample, len(gauges))
			for j := range s {
				s[j] = 100
			}
			s[gauge] = at(i)
			r.Samples = append(r.Samples, s)
		}
		return r
	}
	memory, mounts, disk := 0, 5, 8
	for name, c := range map[string]struct {
		gauge int
		at    func(i int) float64
		grown bool
	}{
		"flat":                       {memory, func(int) float64 { return 100 * mb }, false},
		"noise":                      {memory, func(i int) float64 { return float64(100+i%2*30) * mb }, false},
		"only at the beginning":      {memory, func(i int) float64 { return float64(20+min(i, 10)*8) * mb }, false},
		"sessions of a first minute": {memory, func(i int) float64 { return float64(100+min(i, 17)*4) * mb }, false},
		"a slow leak":                {memory, func(i int) float64 { return float64(100+i/3) * mb }, true},
		"a wave":                     {memory, func(i int) float64 { return float64(100+(i+25)/20%2*60) * mb }, false},
		"a leak under a wave":        {memory, func(i int) float64 { return float64(100+i/2+(i+5)/20%2*60) * mb }, true},
		"a spike":                    {memory, func(i int) float64 { return float64(100+i/99*900) * mb }, false},
		"a mount a minute":           {mounts, func(i int) float64 { return float64(100 + i/12) }, true},
		"records":                    {disk, func(i int) float64 { return float64(100+i) * mb }, false},
		"more than records":          {disk, func(i int) float64 { return float64(100+3*i) * mb }, true},
		"one mount":                  {mounts, func(i int) float64 { return float64(100 + i/50) }, false},
	} {
		grown := series(c.gauge, c.at).Growing()
		if (len(grown) == 1) != c.grown || c.grown && grown[0].Name != gauges[c.gauge].name {
			t.Errorf("%s: grown: %+v", name, grown)
		}
	}
	if grown := (&Result{}).Growing(); grown != nil {
		t.Errorf("Growing without samples returned %+v", grown)
	}
}
