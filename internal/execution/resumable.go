package execution

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Resumable is an execution, or a plan, that Resume or Attach can continue.
type Resumable struct {
	ID       string    `json:"execution_id"`
	State    string    `json:"state"`
	Why      string    `json:"why"`
	Began    time.Time `json:"began"`
	Changed  time.Time `json:"last_recorded"`
	Tools    []string  `json:"tools"`
	Answered int       `json:"answered"` // calls with a recorded answer
	Unknown  int       `json:"unknown"`  // calls whose outcome is unknown
}

// Resumable lists the executions of a tenant that were interrupted or are suspended,
// latest first. It lists those of one session, or those without a session: a step
// belongs to the callers that know its session. An interrupted step has no record, so
// that only suspended ones are listed.
func (r *Runner) Resumable(ctx context.Context, home *home.Home, session string) ([]Resumable, error) {
	all := r.registry.listSuspended(home.ID(), session)
	if session != "" {
		return all, nil
	}
	left, err := home.Journal.ListUnfinished(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		all = append(all, resumableFrom(l))
	}
	slices.SortStableFunc(all, func(a, b Resumable) int { return b.Changed.Compare(a.Changed) })
	return all, nil
}

// listSuspended returns the suspended executions of a tenant's session, or without a
// session, and those that have ended after an answer without being delivered.
func (b *registry) listSuspended(owner tenant.ID, session string) (all []Resumable) {
	all = []Resumable{}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	list := func(x *run, state, why string) {
		if b.runs[x.id].owner == owner && x.Request.SessionID == session && !x.internal {
			all = append(all, Resumable{ID: x.id, State: state, Why: why, Began: x.started, Changed: x.started, Tools: []string{}})
		}
	}
	for _, e := range b.runs {
		if e.run.suspended() {
			list(e.run, "suspended", "it waits for an answer of the user")
		}
	}
	for _, r := range b.ended {
		if x := b.runs[r.id].run; r.suspended && !x.delivered.Load() && !x.resumable {
			list(x, "ended", "it has ended, and its result was not fetched")
		}
	}
	return all
}

// TooLarge reports that the execution's record is incomplete: it is listed, but cannot
// be resumed.
func (x Resumable) TooLarge() bool { return x.State == string(journal.TooLarge) }

func resumableFrom(l journal.Unfinished) Resumable {
	c := Resumable{ID: l.Execution, State: string(l.Reason), Began: l.Created, Changed: l.Changed, Answered: l.Answered, Unknown: l.Unknown, Tools: []string{}}
	for _, t := range l.Tools {
		c.Tools = append(c.Tools, t.String())
	}
	if l.State == journal.Running && l.Reason != journal.TooLarge {
		c.State, c.Why = "interrupted", "Sandpiper stopped while it was running"
		return c
	}
	switch l.Reason {
	case journal.Planned:
		c.Why = "it is a plan: resume asks for approval"
	case journal.Suspended:
		c.Why = "it waits for an answer of the user"
	case journal.TooLarge:
		c.Why = "its record exceeds the limit, so it cannot be resumed"
	default:
		c.Why = "it ended as " + strings.ReplaceAll(string(l.Reason), "_", " ")
	}
	return c
}
