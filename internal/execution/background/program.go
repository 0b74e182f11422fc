package background

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// Programs are programs of one kind, such as workflows, that tenants have by name and that run without a
// client. Inputs are a JSON object; nil means none.
type Programs struct {
	Kind string // in singular; "" means that there are none
	// Check reports that there is no such program, or that it does not take the inputs.
	Check func(ctx context.Context, h *home.Home, name string, inputs json.RawMessage) error
	// Request returns what runs a program with the variable inputs. It does not look for it.
	Request func(name string) (execution.Request, error)
}

// NoPrograms are those of a kind that this program does not have.
func NoPrograms(kind string) Programs {
	none := fault.New(fault.Unavailable, "this program has no %ss", kind)
	return Programs{
		Kind:    kind,
		Check:   func(context.Context, *home.Home, string, json.RawMessage) error { return none },
		Request: func(string) (execution.Request, error) { return execution.Request{}, none },
	}
}

// Stored returns the stored request of an execution that runs a program. The quotas of the tenant apply
// when it starts, and a workflow is compiled then.
func (p Programs) Stored(name string, inputs json.RawMessage, description string) ([]byte, error) {
	req, err := p.Request(name)
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 {
		inputs = json.RawMessage("{}")
	}
	if req.Vars, err = json.Marshal(map[string]json.RawMessage{"inputs": inputs}); err != nil {
		return nil, err
	}
	req.Description, req.Background = description, true
	return json.Marshal(execution.StoredRequest{Uncounted: true, Request: req})
}
