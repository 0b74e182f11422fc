package process

import (
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// burn uses CPU time in the given number of seconds.
const burn = `
import os, time
def burn(s):
    end = time.process_time() + s
    while time.process_time() < end: pass
`

func TestCPUTimeIsMeasured(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	x := openInstance(t, b, h, "a")
	for name, c := range map[string]struct {
		code        string
		least, most time.Duration
	}{
		"an idle run":     {"time.sleep(0.2)", 0, 100 * time.Millisecond},
		"the interpreter": {"burn(0.4)", 380 * time.Millisecond, 600 * time.Millisecond},
		"a child": {"p = os.fork()\nif p == 0:\n    burn(0.4)\n    os._exit(0)\nos.waitpid(p, 0)", 380 * time.Millisecond,
			600 * time.Millisecond},
		"a zombie": {"p = os.fork()\nif p == 0:\n    burn(0.4)\n    os._exit(0)\nos.waitid(os.P_PID, p, os.WEXITED | os.WNOWAIT)",
			380 * time.Millisecond, 600 * time.Millisecond},
	} {
		out, err := x.Run(t.Context(), sandbox.Program{ID: "test", Code: burn + c.code, MeasureCPU: true}, sandbox.NoHost{})
		if err != nil || out.Status != sandbox.Completed {
			t.Fatalf("%s: %+v %v", name, out, err)
		}
		if out.Usage.CPU < c.least || out.Usage.CPU > c.most {
			t.Errorf("%s: %v", name, out.Usage.CPU)
		}
	}
	if out := runIn(t, x, burn+"burn(0.1)"); out.Usage.CPU != 0 {
		t.Errorf("not asked for: %v", out.Usage.CPU)
	}
	out, err := x.Run(t.Context(), sandbox.Program{ID: "test", Code: burn + "burn(0.4)\nos._exit(0)", MeasureCPU: true}, sandbox.NoHost{})
	if err != nil || out.Usage.CPU < 380*time.Millisecond {
		t.Errorf("a worker that ended: %v %v", out.Usage.CPU, err)
	}
}
