package tenants

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/build"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// TestRuns is too short to measure anything. It checks that all requests are answered as
// expected. Rates and times depend on what else the machine does.
func TestRuns(t *testing.T) {
	longtest.Skip(t)
	binary, err := build.Program(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Binary: binary, Log: func(line string) { t.Log(line) }}
	skip := func(err error) {
		t.Helper()
		if fault.KindOf(err) == fault.Unavailable && os.Getenv("REQUIRE_SANDBOX") == "" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	load, err := Load(t.Context(), LoadConfig{Config: cfg, Tenants: 4, Callers: 2, Duration: 5 * time.Second})
	skip(err)
	for _, p := range load.Phases {
		if p.Failures > 0 || len(p.Kinds["sum"]) == 0 {
			t.Errorf("%d tenants: %v, %q", p.Tenants, p.Kinds, p.Examples)
		}
	}
	noisy, err := Noisy(t.Context(), NoisyConfig{Config: cfg, Duration: 3 * time.Second})
	skip(err)
	if noisy.Beside.Failures > 0 || noisy.Floods["wrong tokens"].Refused == 0 || noisy.Floods["executions"].Accepted == 0 {
		t.Errorf("B: %q; A: %+v", noisy.Beside.Examples, noisy.Floods)
	}
	active, err := Active(t.Context(), ActiveConfig{Config: cfg, Counts: []int{1, 20}, Rounds: 1, Duration: 2 * time.Second})
	skip(err)
	if len(active.Errors()) > 0 {
		t.Error(active.Errors())
	}
	idle, err := Idle(t.Context(), IdleConfig{Config: cfg, Tenants: 20, Active: 2})
	skip(err)
	if len(idle.Many.Starts) != startCount || idle.Few.Memory == 0 || idle.Many.Memory == 0 {
		t.Errorf("%+v", idle)
	}
}

// phase is one of 100 s with a rate and memory that grows by mb per tenth.
func phase(rate int, grows int64) *Phase {
	p := &Phase{Duration: 100 * time.Second, Times: make([]time.Duration, rate*100)}
	for i := range int64(100) {
		p.Samples = append(p.Samples, Sample{time.Duration(i) * time.Second, 100 * mb, (400 + grows*i/10) * mb})
	}
	return p
}

func TestLoadProblems(t *testing.T) {
	for name, c := range map[string]struct {
		many *Phase
		want string // of the only problem; "" means none
	}{
		"as fast as one tenant": {phase(100, 0), ""},
		"a tenth slower":        {phase(90, 0), ""},
		"slower":                {phase(89, 0), "the rate is 0.89"},
		"a little growth":       {phase(100, 5), ""},
		"growth":                {phase(100, 10), "memory has grown from 4"},
		"an error":              {func() *Phase { p := phase(100, 0); p.Failures = 1; return p }(), "1 errors"},
	} {
		r := &LoadResult{Phases: []*Phase{phase(110, 0), c.many, phase(90, 0)}}
		checkProblems(t, name, append(r.Errors(), r.Exceeded()...), c.want)
	}
}

func TestNoisyProblems(t *testing.T) {
	took := func(d time.Duration) *Phase { return &Phase{Times: []time.Duration{d}} }
	for name, c := range map[string]struct {
		beside *Phase
		other  int
		want   string
	}{
		"ten times slower":      {took(20 * time.Millisecond), 0, ""},
		"more":                  {took(21 * time.Millisecond), 0, "10.5 times"},
		"a refusal of B":        {&Phase{Failures: 1, Examples: []string{"busy"}}, 0, "busy"},
		"an unexpected error A": {took(time.Millisecond), 1, "tenant A: 1 calls"},
	} {
		r := &NoisyResult{Alone: []*Phase{took(time.Millisecond), took(3 * time.Millisecond)}, Beside: c.beside,
			Floods: map[string]*Flood{"calls": {Other: c.other}}}
		checkProblems(t, name, append(r.Errors(), r.Exceeded()...), c.want)
	}
}

func TestIdleProblems(t *testing.T) {
	few := IdlePhase{Tenants: 100, Starts: []time.Duration{1}, Memory: 50 * mb}
	for name, c := range map[string]struct {
		start  time.Duration
		memory int64
		want   string
	}{
		"the same":   {time.Second, 55 * mb, ""},
		"a slow one": {time.Second + 1, 50 * mb, "a start with 9 tenants"},
		"growth":     {time.Second, 56 * mb, "56 MB, and with 100 tenants 50 MB"},
	} {
		r := &IdleResult{Few: few, Many: IdlePhase{Tenants: 9, Starts: []time.Duration{1, c.start}, Memory: c.memory}}
		checkProblems(t, name, append(r.Errors(), r.Exceeded()...), c.want)
	}
}

func TestActiveProblems(t *testing.T) {
	took := func(d time.Duration) *Phase { return &Phase{Times: []time.Duration{d}} }
	for name, c := range map[string]struct {
		many *Phase
		want string
	}{
		"half as slow again": {took(15), ""},
		"more":               {took(16), "is 1.6 times that with 1,"},
		"an error":           {&Phase{Times: []time.Duration{10}, Failures: 1, Examples: []string{"busy"}}, "busy"},
		"nothing":            {&Phase{}, "0 errors and wrong results of 0"},
	} {
		r := &ActiveResult{ActiveConfig: ActiveConfig{Counts: []int{1, 9}}, Phases: []*Phase{took(10), c.many}}
		checkProblems(t, name, append(r.Errors(), r.Exceeded()...), c.want)
	}
}

func checkProblems(t *testing.T, name string, got []string, want string) {
	t.Helper()
	if want == "" && len(got) == 0 {
		return
	}
	if len(got) != 1 || want == "" || !strings.Contains(got[0], want) {
		t.Errorf("%s: problems %q, want %q", name, got, want)
	}
}
