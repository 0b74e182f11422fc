//go:build linux

package worker_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/sandboxtest"
)

// The gaps listed in docs/restricted.md exist. A change that closes one removes it
// from that page. The tests of the backends show that the sandbox contains them.
func TestKnownGapsRemain(t *testing.T) {
	for _, gap := range sandboxtest.Gaps {
		t.Run(gap.Name, func(t *testing.T) {
			checkRestricted(t, program{code: gap.Code, want: value(gap.Result)})
		})
	}
}
