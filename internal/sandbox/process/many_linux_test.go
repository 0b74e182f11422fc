package process

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The zygote has a descriptor of each worker, so the descriptors that it receives for a
// new one have every number up to some hundreds.
func TestManySandboxesAreOpenAtOnce(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	h := newHost(t)
	b := h.backend(nil)
	spec := h.spec("a")
	for n := range 150 {
		s, err := b.Open(t.Context(), spec)
		if err != nil {
			t.Fatalf("with %d open: %v", n, err)
		}
		defer s.Close()
		if n%50 == 49 {
			if out, err := s.Run(t.Context(), sandbox.Program{Code: "6*7"}, sandbox.NoHost{}); err != nil || string(out.Result) != "42" {
				t.Fatalf("number %d: %+v %v", n, out, err)
			}
		}
	}
}
