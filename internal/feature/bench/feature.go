// Package bench measures the performance of the program on the current machine.
//
// A row has a measured value and, where possible, the same for a bare interpreter
// (the embedded CPython without a sandbox, in the same run), their ratio, and a
// target. Ratios are more meaningful than absolute times, which depend on the machine
// and its load. A slow result is not an error. Package cost measures tokens.
//
// The program runs in temporary directories and is driven over MCP and by commands.
// Only one Run may be active at a time. The module in bench/ tests stability over time,
// crashes and many tenants, and compares the program with others.
package bench

import (
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// Feature returns the feature: the command bench.
func Feature() feature.Feature {
	return feature.Feature{
		Feature:  daemon.Feature{Name: "bench"},
		Docs:     "benchmarks.md",
		Commands: commands,
	}
}
