package mcpserver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// A request state is for one tenant and one execution, until its questions expire.
func TestRequestStateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		other, err := tenant.Parse("other")
		if err != nil {
			t.Fatal(err)
		}
		state := s.key.state(tenant.Local, "exec_a", time.Now().Add(time.Hour))
		time.Sleep(time.Hour - time.Second)
		expired := func(at time.Time) bool { return !time.Now().Before(at) }
		if id, asked, expires, ok := s.key.opened(tenant.Local, state); id != "exec_a" || time.Since(asked) != time.Hour-time.Second ||
			expired(expires) || !ok {
			t.Errorf("before: %q %s %s %t", id, asked, expires, ok)
		}
		time.Sleep(time.Second)
		if id, _, expires, ok := s.key.opened(tenant.Local, state); id != "exec_a" || !expired(expires) || !ok {
			t.Errorf("after: %q %s %t", id, expires, ok)
		}
		later := s.key.state(tenant.Local, "exec_a", time.Now().Add(time.Hour))
		content, mac := later[:strings.LastIndex(later, ".")], state[strings.LastIndex(state, "."):]
		for name, changed := range map[string]string{
			"of a later time": content + mac, "of another execution": strings.Replace(later, "exec_a", "exec_b", 1),
			"without a time": "exec_a" + mac, "empty": "", "a dot": ".",
		} {
			if id, _, _, ok := s.key.opened(tenant.Local, changed); ok {
				t.Errorf("%s: accepted for %q", name, id)
			}
		}
		if _, _, _, ok := s.key.opened(other, later); ok {
			t.Error("accepted for another tenant")
		}
	})
}
