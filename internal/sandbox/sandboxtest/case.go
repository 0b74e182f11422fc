package sandboxtest

import (
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Case is one attack.
type Case struct {
	Name    string
	Promise string // one sentence: the property that the attack must not break
	// Layers stop the attack; with all of them disabled it succeeds. If empty, NotShown
	// states why no test shows that.
	Layers   []string
	NotShown string
	// Own reports that network and IPC namespaces of each sandbox's own stop the attack too; see
	// RunOwnNamespaces.
	Own    bool
	Steps  []Step
	Limits sandbox.Limits
	Time   time.Duration // deadline of each step; 0 means 30 seconds, which no step may reach
	Slow   bool          // takes seconds
	// Ends are further allowed endings of the last step, as "status" or "status:limit". Always
	// allowed, unless Must is set, are completion without a result and an OSError or
	// MemoryError.
	Ends []string
	Must bool
	// Check inspects the result of the attack and returns a description of any violation. It
	// is not called when layers are disabled.
	Check func(p *Result) string
	// Output is the number of output bytes that the host accepts; 0 means no limit.
	Output int
}

// Step is one execution. Steps of one actor run in the same sandbox, which stays open until the
// end of the case unless a step ends it.
type Step struct {
	// By is an owner, with a number for a further sandbox of that owner: "alice", "mallory",
	// "mallory/2".
	By   string
	Code string
	// Mounts are added to the workspace mount when this step opens the sandbox.
	Mounts []Mount
	// Repeat is how many times the step runs, each time in a new sandbox. Threads in the
	// sandboxes of earlier steps keep running.
	Repeat int
	// MayNotOpen allows Open to fail, which ends the step.
	MayNotOpen bool
	// End closes the actor's sandbox after the step.
	End bool
}

// Mount is a directory of the actor below the root of the workspaces, mounted at a target outside
// or inside of /workspace. It contains a file named marker.
type Mount struct {
	Target   string
	ReadOnly bool
}

// Result is the result of a case.
type Result struct {
	Success    string // what a successful attack obtained
	Impossible string // why the attack is impossible on this machine
	Failure    string // an error other than a successful attack
	Outcomes   []sandbox.Outcome
	Output     []string // output chunks of all steps
	Calls      int      // number of host calls
	Results    map[string]any
}

// Last returns the outcome of the last step.
func (p *Result) Last() sandbox.Outcome {
	if len(p.Outcomes) == 0 {
		return sandbox.Outcome{}
	}
	return p.Outcomes[len(p.Outcomes)-1]
}

// single returns the only step of a case.
func single(code string) []Step { return []Step{{By: "mallory", Code: code}} }

// alice is a step of the victim, mallory a step of the attacker.
func alice(code string) Step   { return Step{By: "alice", Code: code} }
func mallory(code string) Step { return Step{By: "mallory", Code: code} }

func layers(names string) []string { return strings.Fields(names) }

const defaultTime = 30 * time.Second
