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

// Resumable is an execution, or a plan, that Resume or Attach goes on with.
type Resumable struct {
	ID       string    `json:"execution_id"`
	State    string    `json:"state"`
	Why      string    `json:"why"`
	Began    time.Time `json:"began"`
	Changed  time.Time `json:"last_recorded"`
	Tools    []string  `json:"tools"`
	Answered int       `json:"answered"` // calls that are answered from the record
	Unknown  int       `json:"unknown"`  // calls of which it is not known whether they happened
}

// Resumable lists the executions of a tenant that were interrupted or are suspended,
// latest first. Those of a session are not among them: a step of it that was
// interrupted has no record, and one that is suspended belongs to whoever knows the
// session.
func (r *Runner) Resumable(ctx context.Context, home *home.Home) ([]Resumable, error) {
	left, err := home.Journal.ListUnfinished(ctx)
	if err != nil {
		return nil, err
	}
	all := r.book.suspended(home.ID())
	for _, l := range left {
		all = append(all, resumableOf(l))
	}
	slices.SortStableFunc(all, func(a, b Resumable) int { return b.Changed.Compare(a.Changed) })
	return all, nil
}

// suspended returns the executions of a tenant here that wait for a person, or have
// ended since somebody answered and were not fetched.
func (b *book) suspended(owner tenant.ID) (all []Resumable) {
	all = []Resumable{}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	list := func(x *run, state, why string) {
		if b.runs[x.id].owner == owner && x.session == "" && !x.unlisted {
			all = append(all, Resumable{ID: x.id, State: state, Why: why, Began: x.began, Changed: x.began, Tools: []string{}})
		}
	}
	for _, e := range b.runs {
		if e.run.parked() {
			list(e.run, "suspended", "it waits for the person")
		}
	}
	for _, r := range b.ended {
		if x := b.runs[r.id].run; r.awaited && !x.told.Load() && !x.left {
			list(x, "ended", "it has ended, and nobody has its result")
		}
	}
	return all
}

// TooLarge reports that the record of the execution is not complete: it is listed, and
// cannot be resumed.
func (x Resumable) TooLarge() bool { return x.State == string(journal.TooLarge) }

func resumableOf(l journal.Unfinished) Resumable {
	c := Resumable{ID: l.Execution, State: string(l.State), Began: l.Created, Changed: l.Changed, Answered: l.Answered, Unknown: l.Unknown, Tools: []string{}}
	for _, t := range l.Tools {
		c.Tools = append(c.Tools, t.String())
	}
	switch l.State {
	case journal.Running:
		c.State, c.Why = "interrupted", "its process ended while it ran"
	case journal.Planned:
		c.Why = "it is a plan: resume asks you to approve it"
	case journal.Suspended:
		c.Why = "it waits for the person"
	case journal.TooLarge:
		c.Why = "it was answered more than is kept, and cannot be resumed"
	default:
		c.Why = "it ended as " + strings.ReplaceAll(string(l.State), "_", " ")
	}
	return c
}
