package guardrail

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/command"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// EventType is the time at which a hook runs.
type EventType string

// The event types.
const (
	BeforeCall EventType = "before_tool_call"
	AfterCall  EventType = "after_tool_call"
	BeforeCode EventType = "before_code"
	AfterCode  EventType = "after_code"
)

// EventTypes lists all event types.
var EventTypes = []EventType{BeforeCall, AfterCall, BeforeCode, AfterCode}

// Event is the input of a hook. It contains real values, not tokens.
type Event struct {
	Type      EventType       `json:"event"`
	Tenant    string          `json:"tenant"`
	Execution string          `json:"execution,omitempty"` // "": the call was not made by code
	Session   string          `json:"session,omitempty"`
	Server    string          `json:"server,omitempty"` // of a call, with tool and arguments
	Tool      string          `json:"tool,omitempty"`   // "server.tool" of calls, where * matches any letters; "": all
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Code      string          `json:"code,omitempty"`
	Variables json.RawMessage `json:"variables,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // after: the answer of the tool, or the result of the code
	Error     string          `json:"error,omitempty"`  // after: the error, if any
}

// Action is the decision of a hook.
type Action string

// The actions. Ask is only valid before a call.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // request approval
	Block Action = "block"
)

// Decision is the result of a hook. Reason is shown to the caller.
type Decision struct {
	Action Action `json:"decision"`
	Reason string `json:"reason"`
}

// Hook decides about events. An error or an invalid decision blocks.
type Hook interface {
	Decide(context.Context, Event) (Decision, error)
}

// HookConfig defines when a hook runs. It has a Command or a Hook.
type HookConfig struct {
	On      EventType     `key:"on"`
	Tool    string        `key:"tool"`    // "server.tool", with * for any letters, of calls; "" means all
	Command []string      `key:"command"` // program and arguments
	Timeout time.Duration `key:"timeout"` // of Command; 0: 5 s
	Hook    Hook
}

// namedHook is a hook of a Guard.
type namedHook struct {
	on   EventType
	tool string
	name string
	hook Hook
}

const maxTimeout = time.Minute

func (c HookConfig) compile(number int) (namedHook, error) {
	h := namedHook{c.On, c.Tool, fmt.Sprintf("hook %d", number), c.Hook}
	_, bad := path.Match(c.Tool, "")
	switch {
	case !slices.Contains(EventTypes, c.On):
		return h, fault.New(fault.Invalid, "has on: %.40q; use before_tool_call, after_tool_call, before_code or after_code", c.On)
	case bad != nil:
		return h, fault.New(fault.Invalid, "has tool: %.80q, which is not a valid pattern; use server.tool, where * matches any letters",
			c.Tool)
	case c.Tool != "" && c.On != BeforeCall && c.On != AfterCall:
		return h, fault.New(fault.Invalid, "has tool: %.80q, which conflicts with on: %s; remove tool", c.Tool, c.On)
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return h, fault.New(fault.Invalid, "has timeout: %s; use at most %s", c.Timeout, maxTimeout)
	case c.Hook == nil && (len(c.Command) == 0 || c.Command[0] == ""):
		return h, fault.New(fault.Invalid, "has no command; set command: [program, argument]")
	}
	if h.hook == nil {
		h.hook = newCommandHook(c.Command, c.Timeout)
		h.name += ", " + path.Base(strings.ReplaceAll(c.Command[0], `\`, "/"))
	}
	return h, nil
}

func (h namedHook) matches(e Event) bool {
	if h.on != e.Type {
		return false
	}
	// Names of tools may contain slashes, which * of a pattern does not match.
	fits, _ := path.Match(strings.ReplaceAll(h.tool, "/", "\x00"), strings.ReplaceAll(e.Server+"."+e.Tool, "/", "\x00"))
	return h.tool == "" || fits
}

// HasHook reports whether a hook runs on an event type, so that the caller can avoid
// building an Event.
func (g *Guard) HasHook(on EventType) bool {
	return g != nil && slices.ContainsFunc(g.hooks, func(h namedHook) bool { return h.on == on })
}

// HookDecision is the combined decision of all hooks.
type HookDecision struct {
	Decision
	Hook string // the deciding hook; "": all hooks allowed
}

// RunHooks runs the hooks that match an event, in order. The first that blocks
// decides; otherwise Ask overrides Allow. A hook that fails blocks.
func (g *Guard) RunHooks(ctx context.Context, e Event) HookDecision {
	all := HookDecision{Decision: Decision{Action: Allow}}
	if g == nil {
		return all
	}
	for _, h := range g.hooks {
		if !h.matches(e) {
			continue
		}
		d := h.decide(ctx, e)
		switch {
		case d.Action == Block:
			return HookDecision{d, h.name}
		case d.Action == Ask && all.Action == Allow:
			all = HookDecision{d, h.name}
		}
	}
	return all
}

// maxReason limits the bytes of a reason that are shown.
const maxReason = 500

func (h namedHook) decide(ctx context.Context, e Event) Decision {
	d, err := h.hook.Decide(ctx, e)
	switch {
	case err != nil:
		return Decision{Block, "the hook failed: " + fault.Message(err)}
	case d.Action == Allow || d.Action == Block || d.Action == Ask && e.Type == BeforeCall:
		d.Reason = command.OneLine(d.Reason, maxReason)
		return d
	case d.Action == Ask:
		return Decision{Block, `the hook returned "ask", which is only valid before a tool call`}
	}
	return Decision{Block, `the hook returned a decision other than "allow", "ask" or "block"`}
}
