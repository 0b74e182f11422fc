package execution

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

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
