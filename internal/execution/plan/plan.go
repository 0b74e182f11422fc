// Package plan collects the calls of a dry run in a plan, stores it until the user
// approves it, and then makes exactly its calls.
//
// A plan is stored as the journal's record of an execution that has not started:
// encrypted, applied by one process at a time, and deleted when it has been applied.
package plan

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// ttl is how long a plan can be approved.
const ttl = 24 * time.Hour

const prefix = "plan_"

// again is the end of the run of a plan that can be opened again.
var again = journal.End{State: journal.Waiting, Reason: journal.Planned}

// IsID reports whether an id is that of a plan, not of an execution of code.
func IsID(id string) bool { return strings.HasPrefix(id, prefix) }

// stored is a plan on disk.
type stored struct {
	Calls  []toolcall.Planned `json:"calls"`
	Made   time.Time          `json:"made"`
	Subset string             `json:"subset,omitempty"` // of the servers that the dry run had; "" means all
}

// hash identifies the calls of the plan, for its approval.
func (p stored) hash() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // cannot happen: it was decoded from JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// number returns the calls as answers show them.
func number(calls []toolcall.Planned) []reply.PlannedCall {
	all := []reply.PlannedCall{}
	for i, c := range calls {
		all = append(all, reply.PlannedCall{Call: i + 1, Ref: c.Ref, Args: c.Args, References: c.References})
	}
	return all
}

// save stores a plan and returns its id; "" if there is no journal.
func save(ctx context.Context, log *journal.Log, p stored) (string, error) {
	id := prefix + strings.ToLower(rand.Text())
	record := log.NewRecord(id, func() ([]byte, error) { return json.Marshal(p) }, false)
	if record == nil {
		return "", nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := record.Flush(ctx); err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "the dry run ended, but its plan could not be stored: %s", fault.Message(err))
	}
	return id, record.End(ctx, again)
}

// NotFound returns the error for a plan that cannot be applied.
func NotFound(id string) error {
	return fault.New(fault.NotFound, "there is no plan %.60q that can be applied: it was applied or denied, or is more than %d hours old",
		id, int(ttl.Hours())).
		WithHint("make a new plan with execute_code and dry_run")
}

// Open returns a stored plan, which the caller must Apply or Close. check returns an
// error if a call is no longer valid with the plan's subset of the servers. Open deletes an expired plan.
func Open(ctx context.Context, log *journal.Log, id string, check Check) (*Plan, error) {
	record, request, err := log.OpenRecord(ctx, id, func([]byte) bool { return false })
	if fault.KindOf(err) == fault.NotFound {
		return nil, NotFound(id)
	}
	if err != nil {
		return nil, err
	}
	p := &Plan{id: id, record: record, check: check}
	if err := json.Unmarshal(request, &p.stored); err != nil || clock.Left(p.made().Add(ttl), time.Now(), ttl) <= 0 {
		_ = record.End(ctx, journal.End{})
		return nil, NotFound(id)
	}
	for _, c := range p.Calls {
		if err := check(ctx, p.Subset, c); err != nil {
			_ = p.Close(ctx)
			return nil, fault.Wrap(fault.KindOf(err), err, "the plan was not applied: %s", fault.Message(err)).
				WithHint("%s", fault.Hint(err))
		}
	}
	return p, nil
}

// Plan is an open plan. It must not be used concurrently.
type Plan struct {
	stored
	id     string
	record *journal.Record
	check  Check
}

// made returns when the plan was made, by its record if its own time is of a clock that was put back.
func (p *Plan) made() time.Time {
	if created := journal.Created(p.record); created.Before(p.Made) {
		return created
	}
	return p.Made
}

// Check returns an error if a call is no longer valid with a subset of the servers.
type Check func(ctx context.Context, subset string, c toolcall.Planned) error

// Record returns the record of the plan, to which its calls belong.
func (p *Plan) Record() *journal.Record { return p.record }

// Close releases a plan that was not applied; it can be opened again.
func (p *Plan) Close(ctx context.Context) error { return p.record.End(ctx, again) }
