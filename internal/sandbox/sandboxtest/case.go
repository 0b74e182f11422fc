package sandboxtest

import (
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Case is one attack.
type Case struct {
	Name    string
	Promise string // what holds whatever the code does, one sentence
	// Layers stop the attack; with all of them switched off it succeeds. None
	// means that it is not shown to, and Unshown says why.
	Layers  []string
	Unshown string
	Steps   []Step
	Limits  sandbox.Limits
	Time    time.Duration // deadline of each step; 0 means 30 seconds, which no step may reach
	// Ends are the ways in which the last step may end beside the usual ones,
	// as "status" or "status:limit". Usual is completed without a result, or
	// raised by an OSError or a MemoryError. If Must is set nothing usual will do.
	Ends []string
	Must bool
	// Check looks at what came of the attack from outside and returns what is
	// wrong. It is not called when layers are off.
	Check func(p *Result) string
	// Output is how many bytes of output the host takes; 0 means all.
	Output int
}

// Step is one execution. Steps of one actor run in one sandbox, which stays
// open to the end of the case unless a step ends it.
type Step struct {
	// By is an owner, with a number for another sandbox of the same: "alice",
	// "mallory", "mallory/2".
	By   string
	Code string
	// Mounts are placed beside the workspace when this step opens the sandbox.
	Mounts []Mount
	// Repeat is how often the step opens a sandbox of its own and runs there,
	// while sandboxes of earlier steps go on with what their threads do.
	Repeat int
	// MayNotOpen allows that no sandbox opens; the step is then over.
	MayNotOpen bool
	// End closes the actor's sandbox after the step.
	End bool
}

// Mount is a directory of the actor's beneath the workspaces' root, shown at a
// target beside or in /workspace. It contains a file named marker.
type Mount struct {
	Target   string
	ReadOnly bool
}

// Result is what came of a case.
type Result struct {
	Success    string // what the attack got
	Impossible string // why the attack was impossible on this machine
	Failure    string // what else went wrong than the attack
	Outcomes   []sandbox.Outcome
	Output     []string // of all steps, item by item
	Calls      int      // that the host was asked
	Results    map[string]any
}

// Last is the outcome of the last step.
func (p *Result) Last() sandbox.Outcome {
	if len(p.Outcomes) == 0 {
		return sandbox.Outcome{}
	}
	return p.Outcomes[len(p.Outcomes)-1]
}

// alone is a case's only step.
func alone(code string) []Step { return []Step{{By: "mallory", Code: code}} }

// alice and mallory act in turn; whoever is mallory attacks.
func alice(code string) Step   { return Step{By: "alice", Code: code} }
func mallory(code string) Step { return Step{By: "mallory", Code: code} }

func by(layers string) []string { return strings.Fields(layers) }

const patience = 30 * time.Second
