package daemon_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// leaveCall calls execute_code and disconnects after the first event, whose id it returns
// with the connection. It waits until the answer is kept.
func leaveCall(t *testing.T, url string, d *daemon.Daemon) (connection []string, event string) {
	t.Helper()
	connection = connect(t, url, ownerToken)
	ctx, leave := context.WithCancel(t.Context())
	res := sendHTTPContext(t, ctx, "POST", url+"/mcp", call("execute_code", `{"code":"sleep 200ms\nresult \"`+ofOwner+`\""}`), ownerToken,
		connection...)
	lines := bufio.NewScanner(res.Body)
	for event == "" && lines.Scan() {
		event, _ = strings.CutPrefix(lines.Text(), "id: ")
		if !strings.HasSuffix(event, "_0") {
			event = ""
		}
	}
	leave()
	home, err := d.Tenants.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Release(t.Context())
	for t.Context().Err() == nil {
		if _, err := home.Streams.Find(connection[1], strings.TrimSuffix(event, "_0")); err == nil {
			return connection, event
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the answer was not kept")
	return nil, ""
}

func TestAnswerIsSentAfterARestart(t *testing.T) {
	cfg := daemon.Config{Config: config.Config{DataDir: filepath.Join(t.TempDir(), "data")}}
	url, first, stop := startTokens(t, cfg)
	connection, event := leaveCall(t, url, first)
	closed, _ := leaveCall(t, url, first)
	if res := sendHTTP(t, "DELETE", url+"/mcp", "", ownerToken, closed...); res.StatusCode != http.StatusNoContent {
		t.Fatal(res.Status)
	}
	stop()
	url, _, _ = startTokens(t, cfg)
	resume := func(token string, connection []string, event string) string {
		return answer(t, sendHTTP(t, "GET", url+"/mcp", "", token, append(connection, "Last-Event-ID", event)...))
	}
	for range 2 { // it may be lost again
		if got := resume(ownerToken, connection, event); !strings.Contains(got, ofOwner) || !strings.HasPrefix(got,
			`{"jsonrpc":"2.0","id":2,`) {
			t.Errorf("the owner gets %s", got)
		}
	}
	stream := strings.TrimSuffix(event, "_0")
	if got := resume(ownerToken, connection, stream+"_9"); got != "" { // it has the answer
		t.Errorf("after the answer: %s", got)
	}
	unknown := resume(aliceToken, []string{"Mcp-Session-Id", strings.Repeat("A", 26)}, event)
	for name, got := range map[string]string{
		"another tenant":      resume(aliceToken, connection, event),
		"a closed connection": resume(ownerToken, closed, event),
		"another stream":      resume(ownerToken, connection, "other_0"),
		"a malformed event":   resume(ownerToken, connection, stream),
		"a path":              resume(ownerToken, []string{"Mcp-Session-Id", "../streams/" + connection[1]}, event),
	} {
		if diff := cmp.Diff(unknown, got); diff != "" {
			t.Errorf("%s gets another answer than for an unknown connection:\n%s", name, diff)
		}
	}
	if res := sendHTTP(t, "POST", url+"/mcp", call("list_workspace_files", `{}`), ownerToken,
		connection...); res.StatusCode != http.StatusNotFound {
		t.Errorf("the connection still exists: %s", res.Status)
	}
}

// The first event of a stream tells clients of 2025-11-25 its id and when to reconnect. It has no
// name: clients know "message" only, and log any other as unknown.
func TestFirstEventHasRetry(t *testing.T) {
	url := serveTokens(t, daemon.Config{})
	res := sendHTTP(t, "POST", url+"/mcp", call("list_workspace_files", `{}`), ownerToken, connect(t, url, ownerToken)...)
	body, err := io.ReadAll(res.Body)
	if err != nil || !regexp.MustCompile(`^retry: 1500\nid: [A-Z2-7]+_0\ndata: \n\nevent: message\n`).Match(body) {
		t.Errorf("%q %v", body, err)
	}
}

// Delete removes kept answers with the tenant.
func TestDeletedTenantHasNoAnswers(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	url, d, stop := startTokens(t, daemon.Config{Config: config.Config{DataDir: data}})
	leaveCall(t, url, d)
	dir := filepath.Join(data, "private", "local", "streams")
	if all, err := os.ReadDir(dir); err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	stop()
	again := start(t, daemon.Config{Config: config.Config{DataDir: data}})
	if err := again.Tenants.Delete(t.Context(), tenant.Local); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the answers are still there")
	}
}
