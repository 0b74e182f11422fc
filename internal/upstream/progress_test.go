package upstream_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Progress restarts the limit of a call, up to the limit of the whole call.
func TestProgressKeepsACallAlive(t *testing.T) {
	web := serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
		if m.Method != "tools/call" || m.Params.Arguments["x"] == "hello" {
			return false
		}
		reports := map[any]int{"slow": 8, "endless": 1000, "stops": 2}[m.Params.Arguments["x"]]
		for i := range reports {
			stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%v,\"progress\":%d,\"message\":\"row %d\"}}\n\n", m.Params.Meta.ProgressToken, i, i))
			select {
			case <-time.After(200 * time.Millisecond):
			case <-r.Context().Done():
				return true
			}
		}
		if m.Params.Arguments["x"] == "stops" {
			<-r.Context().Done()
			return true
		}
		stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}}\n\n",
			m.ID))
		return true
	})
	s := open(t, upstream.Config{Servers: []upstream.Server{{Name: "site", Kind: upstream.Remote{URL: web.URL + "/mcp"},
		Timeout: time.Second, ProgressTimeout: 4 * time.Second}}})
	wantEcho(t, s, "site")
	if r, err := call(t.Context(), s, "site", "echo", "slow"); err != nil || r.Text() != "ok" {
		t.Errorf("%q %v", r.Text(), err)
	}
	_, err := call(t.Context(), s, "site", "echo", "stops")
	wantError(t, err, fault.Exhausted, `did not respond within 1s while calling echo; its last progress was "row 1"`)
	_, err = call(t.Context(), s, "site", "echo", "endless")
	wantError(t, err, fault.Exhausted, `did not respond within 4s while calling echo; its last progress was "row `)
}
