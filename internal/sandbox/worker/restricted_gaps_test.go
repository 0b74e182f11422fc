//go:build linux

package worker_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/sandboxtest"
)

// The gaps that docs/restricted.md admits are there. Whoever closes one takes
// it off that page. That the sandbox holds behind them is for the backends'
// tests, since here is none.
func TestTheKnownGapsAreGaps(t *testing.T) {
	for _, gap := range sandboxtest.Gaps {
		t.Run(gap.Name, func(t *testing.T) {
			checkRestricted(t, program{code: gap.Code, want: value(gap.Result)})
		})
	}
}
