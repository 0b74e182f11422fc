package execution

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// failedCalls are the last errors of tools that the code of an execution received.
type failedCalls struct {
	mu  sync.Mutex
	all []failedCall
}

type failedCall struct {
	ref     tool.Ref
	message string
}

// Limits of failedCalls.
const (
	maxFailedCalls = 64
	maxCompared    = 200 // bytes of a message
)

// add adds the error of a call, if it is one of a tool.
func (c *failedCalls) add(err error) {
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all = append(c.all, failedCall{f.Ref, beginning(f.Message)}); len(c.all) > maxFailedCalls {
		c.all = c.all[1:]
	}
}

// nameSource names the tool as the source of the result's error if that is the error of a tool. Code can
// raise any ToolError itself: only one that a call had counts.
func (c *failedCalls) nameSource(r *reply.Result) {
	if r.Source != reply.FromCode || r.ErrorType != "ToolError" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range slices.Backward(c.all) {
		if f.message == beginning(r.Error) {
			r.Source = reply.FromTool(f.ref)
			return
		}
	}
}

// beginning returns the beginning of a message, without what differs between the call and the result.
func beginning(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	return message[:min(len(message), maxCompared)]
}

// unknownCalls are the tool calls of an execution that may have taken effect.
type unknownCalls struct {
	mu   sync.Mutex
	all  []string
	lost []string // in progress when the execution ended: its code has not seen their errors
}

// add adds the call that ended with err, if its outcome is unknown.
func (u *unknownCalls) add(err error, lost bool) {
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok || !f.Unknown {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, f.Ref.String())
	if lost {
		u.lost = append(u.lost, f.Ref.String())
	}
}

// addTo adds the calls to the result of the execution, and the lost ones to its error.
func (u *unknownCalls) addTo(r *reply.Result) {
	u.mu.Lock()
	defer u.mu.Unlock()
	slices.Sort(u.all)
	r.Unknown = slices.Compact(u.all)
	if !r.Success() && len(u.lost) > 0 {
		slices.Sort(u.lost)
		r.Error += "; it is unknown whether " + strings.Join(slices.Compact(u.lost), ", ") + " took effect"
	}
}
