package toolcall_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// The code stops waiting for a call and goes on. When it is run again, it gets the same: the call is not
// made again, and its failure says that the code must stop waiting once more.
func TestCancelledCallIsReplayedAsCancelled(t *testing.T) {
	for name, args := range map[string]string{"send": `{"to":"ann"}`, "read": `{}`} {
		unknown := name == "send"
		c := newRestarts(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		c.answer = func(tool.Call) (tool.Result, error) {
			cancel(tool.ErrCancelled)
			return tool.Result{}, context.Canceled
		}
		check := func(what string, err error) {
			t.Helper()
			f, ok := errors.AsType[*tool.Failure](err)
			if !ok || !f.Cancelled || f.Unknown != unknown {
				t.Errorf("%s of %s: %#v", what, name, err)
			}
		}
		first := c.first(t)
		_, err := first.Call(ctx, call("crm", name, args))
		check("the call", err)
		c.answer = func(tool.Call) (tool.Result, error) { return text(`{}`), nil }
		if _, err := first.Call(t.Context(), call("crm", "send", `{"to":"bob"}`)); err != nil { // its record includes the first
			t.Fatal(err)
		}
		_, err = c.resume(t).Call(t.Context(), call("crm", name, args))
		check("the replay", err)
		if len(c.calls) != 0 {
			t.Errorf("%s was made again", name)
		}
	}
}
