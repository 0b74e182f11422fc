// Package unfinished has the executions of a tenant that are interrupted or suspended: it lists them, applies
// the decision of a person about a call whose outcome is unknown, and ends them for good. Resume, of package
// execution, continues them.
package unfinished

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// Execution is an execution, or a plan, that Resume or Attach can continue.
type Execution struct {
	ID       string    `json:"execution_id"`
	State    string    `json:"state"`
	Why      string    `json:"why"`
	Began    time.Time `json:"began"`
	Changed  time.Time `json:"last_recorded"`
	Tools    []string  `json:"tools"`
	Answered int       `json:"answered"` // calls with a recorded answer
	Unknown  int       `json:"unknown"`  // calls whose outcome is unknown
}

// List lists the executions of a tenant that were interrupted or are suspended,
// latest first. It lists those of one session, or those without a session: a step
// belongs to the callers that know its session. An interrupted step has no record, so
// that only suspended ones are listed.
func List(ctx context.Context, r *execution.Runner, h *home.Home, session string) ([]Execution, error) {
	all := []Execution{}
	for _, s := range r.Suspended(h.ID(), session) {
		c := Execution{
			ID:      s.ID,
			State:   "suspended",
			Why:     "it waits for an answer of the user",
			Began:   s.Started,
			Changed: s.Started,
			Tools:   []string{},
		}
		if s.Ended {
			c.State, c.Why = "ended", "it has ended, and its result was not fetched"
		}
		all = append(all, c)
	}
	if session != "" {
		return all, nil
	}
	left, err := h.Journal.ListUnfinished(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		all = append(all, fromRecord(l))
	}
	slices.SortStableFunc(all, func(a, b Execution) int { return b.Changed.Compare(a.Changed) })
	return all, nil
}

// TooLarge reports that the execution's record is incomplete: it is listed, but cannot
// be resumed.
func (x Execution) TooLarge() bool { return x.State == string(journal.TooLarge) }

func fromRecord(l journal.Unfinished) Execution {
	c := Execution{
		ID:       l.Execution,
		State:    string(l.Reason),
		Began:    l.Created,
		Changed:  l.Changed,
		Answered: l.Answered,
		Unknown:  l.Unknown,
		Tools:    []string{},
	}
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

// Abandon ends an execution of the tenant for good: it cancels one that runs in this process, and
// deletes the record. The error is NotFound if there is none, and Unavailable if another live
// process has it.
func Abandon(ctx context.Context, r *execution.Runner, h *home.Home, id string) error {
	ran, err := r.Interrupt(ctx, h, id)
	if err != nil {
		return err
	}
	record, request, err := h.Journal.OpenRecord(ctx, id, notReplayed)
	if err != nil {
		if ran && fault.KindOf(err) == fault.NotFound {
			return nil // it had nothing to record
		}
		return err
	}
	return record.End(ctx, execution.Stopped(request))
}

// notReplayed is for records whose code does not run.
func notReplayed([]byte) bool { return false }
