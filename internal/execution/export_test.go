package execution

import (
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
)

// Latest returns the latest progress of an execution and its number.
func Latest(x *Execution) (live.Progress, int) {
	p, n, _ := x.run.latest()
	return p, n
}

// Asked identifies what a question asks.
var Asked = asked
