package guardrail

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Moment is when a hook is asked.
type EventType string

// The moments there are.
const (
	BeforeCall EventType = "before_tool_call"
	AfterCall  EventType = "after_tool_call"
	BeforeCode EventType = "before_code"
	AfterCode  EventType = "after_code"
)

// Moments are all of them.
var EventTypes = []EventType{BeforeCall, AfterCall, BeforeCode, AfterCode}

// Event is what a hook is asked about. It holds real values, not tokens.
type Event struct {
	Type      EventType       `json:"event"`
	Tenant    string          `json:"tenant"`
	Execution string          `json:"execution,omitempty"` // "" if no code makes the call
	Session   string          `json:"session,omitempty"`
	Server    string          `json:"server,omitempty"` // of a call, with tool and arguments
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Code      string          `json:"code,omitempty"`
	Variables json.RawMessage `json:"variables,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // after: what the tool answered, or the code left
	Error     string          `json:"error,omitempty"`  // after: what went wrong
}

// Say is what a hook says.
type Action string

// What hooks may say; Ask only before a call.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // a person
	Block Action = "block"
)

// Decision is what a hook says, and why: for whoever asked for the call.
type Decision struct {
	Action Action `json:"decision"`
	Reason string `json:"reason"`
}

// Hook judges events. An error blocks, as does a decision that there is not.
type Hook interface {
	Decide(context.Context, Event) (Decision, error)
}

// HookConfig says when a hook is asked. It has a Command or a Hook.
type HookConfig struct {
	On      EventType
	Tool    string        // "server.tool", with * for any letters, of calls; "" means all
	Command []string      // a program and its arguments
	Timeout time.Duration // of Command; 0 means 5 s
	Hook    Hook
}

// hooked is a hook of a Guard.
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
		return h, fault.New(fault.Invalid, "has on: %.40q; it must be before_tool_call, after_tool_call, before_code or after_code", c.On)
	case bad != nil:
		return h, fault.New(fault.Invalid, "has tool: %.80q, which is no pattern: write server.tool, with * for any letters", c.Tool)
	case c.Tool != "" && c.On != BeforeCall && c.On != AfterCall:
		return h, fault.New(fault.Invalid, "has tool: %.80q, and %s is about no tool", c.Tool, c.On)
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return h, fault.New(fault.Invalid, "has timeout: %s; at most %s are allowed", c.Timeout, maxTimeout)
	case c.Hook == nil && (len(c.Command) == 0 || c.Command[0] == ""):
		return h, fault.New(fault.Invalid, "has no command; write command: [program, argument]")
	}
	if h.hook == nil {
		h.hook = newCommand(c.Command, c.Timeout)
		h.name += ", " + path.Base(strings.ReplaceAll(c.Command[0], `\`, "/"))
	}
	return h, nil
}

func (h namedHook) matches(e Event) bool {
	if h.on != e.Type {
		return false
	}
	// Names of tools may have slashes, which a pattern's * does not stand for.
	fits, _ := path.Match(strings.ReplaceAll(h.tool, "/", "\x00"), strings.ReplaceAll(e.Server+"."+e.Tool, "/", "\x00"))
	return h.tool == "" || fits
}

// Asks reports whether there is a hook for a moment: who need not make an Event
// does not.
func (g *Guard) HasHook(on EventType) bool {
	return g != nil && slices.ContainsFunc(g.hooks, func(h namedHook) bool { return h.on == on })
}

// Judgement is what all hooks say of an event.
type HookDecision struct {
	Decision
	Hook string // which one; "" if none had to say anything but Allow
}

// Judge asks the hooks that an event concerns, in their order. The first that
// blocks decides; a person is asked if any wants that. What goes wrong with a hook
// blocks.
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

// mostReason bytes of what a hook says are shown.
const maxReason = 500

func (h namedHook) decide(ctx context.Context, e Event) Decision {
	d, err := h.hook.Decide(ctx, e)
	switch {
	case err != nil:
		return Decision{Block, "the hook that decides this failed: " + fault.Message(err)}
	case d.Action == Allow || d.Action == Block || d.Action == Ask && e.Type == BeforeCall:
		d.Reason = cleanReason(d.Reason)
		return d
	case d.Action == Ask:
		return Decision{Block, `the hook said "ask", which it may only say before a call of a tool`}
	}
	return Decision{Block, `the hook did not say "allow", "ask" or "block"`}
}

// clean is what a hook says, on one line.
func cleanReason(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}
