package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	skills "github.com/sandpiper-mcp/sandpiper/internal/feature/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// ofOwner is content of the owner. No answer to alice may contain it.
const ofOwner = "of the owner"

// TestTenantsAreIsolatedOnEveryEntryPoint tests the table of entry points in docs/tenants.md.
// In each row the owner uses an id of its own and finds it; alice uses it and gets the bytes
// that she gets for an id that nobody has.
func TestTenantsAreIsolatedOnEveryEntryPoint(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	features := []daemon.Feature{skills.Feature().Feature, state.Feature().Feature}
	url, d, stop := startTokens(t, daemon.Config{Features: features, Config: config.Config{DataDir: data}})
	owned := newOwned(t, url, d)
	var rows []entryPoint
	for name, ask := range transports {
		rows = append(rows, owned.messages(name, ask)...)
	}
	rows = append(rows, owned.connections()...)
	rows = append(rows, owned.approvals(d))
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := row.use(t, ownerToken, row.id); !strings.Contains(got, row.finds) {
				t.Errorf("the owner gets %s", got)
			}
			given := func(id string) string { return strings.ReplaceAll(row.use(t, aliceToken, id), id, "ID") }
			theirs, unknown := given(row.id), given(row.unknown)
			if diff := cmp.Diff(unknown, theirs); diff != "" || strings.Contains(theirs, ofOwner) {
				t.Errorf("with the owner's id (+) alice gets another answer than with an unknown one (-):\n%s%s", diff, theirs)
			}
		})
	}
	stop()
	want := []string{"foreign_connection", "foreign_stream", "unknown_approval", "unknown_execution", "unknown_state"}
	if diff := cmp.Diff(want, refusals(t, data, "alice")); diff != "" {
		t.Errorf("audit lines of alice (-want +got):\n%s", diff)
	}
	if got := refusals(t, data, "local"); len(got) > 0 {
		t.Errorf("audit lines of the owner: %q", got)
	}
}

// entryPoint is one way to use an id.
type entryPoint struct {
	name        string
	id, unknown string // the owner's, and one that nobody has
	use         func(t *testing.T, token, id string) string
	finds       string // in the owner's answer
}

// owned is what the owner has.
type owned struct {
	url                         string
	execution, state, approval  string
	connection, stream, request string // of 2025-11-25, of 2024-11-05, an event of the connection
}

func newOwned(t *testing.T, url string, d *daemon.Daemon) owned {
	t.Helper()
	o := owned{url: url}
	transports["2026-07-28"](t, url, ownerToken, call("write_workspace_file", `{"filename":"secret.txt","content":"`+ofOwner+`"}`))
	const asks = `{"code":"call ask {\"question\":\"First?\"}"}`
	older := transports["2025-11-25"](t, url, ownerToken, call("execute_code", asks))
	transports["2025-11-25"](t, url, ownerToken, call("execute_code", `{"session_id":"secret_session","code":"result 1"}`))
	transports["2025-11-25"](t, url, ownerToken, call("execute_code", strings.Replace(asks, "{", `{"session_id":"secret_session",`, 1)))
	o.execution = regexp.MustCompile(`exec_[a-z2-7]{26}`).FindString(older)
	var newer struct {
		Result struct {
			State string `json:"requestState"`
		}
	}
	if err := json.Unmarshal([]byte(transports["2026-07-28"](t, url, ownerToken, call("execute_code", asks))), &newer); err != nil {
		t.Fatal(err)
	}
	o.state = newer.Result.State
	o.connection = connect(t, url, ownerToken)[1]
	o.stream = strings.TrimPrefix(openStream(t, url, ownerToken).endpoint, url)
	res := sendHTTP(t, "POST", url+"/mcp", call("list_skills", `{}`), ownerToken, "Mcp-Session-Id", o.connection, "Mcp-Protocol-Version",
		"2025-11-25")
	body := make([]byte, 1000)
	n, _ := res.Body.Read(body)
	o.request = regexp.MustCompile(`id: (\w+)_0`).FindStringSubmatch(string(body[:n]))[1] + "_0"
	home, err := d.Tenants.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Release(t.Context())
	if _, err := home.Skills.Save(t.Context(), skill.Draft{Name: "secret_skill", Code: "x = '" + ofOwner + "'"}); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Open(home).Put(t.Context(), state.Draft{Name: "secret_state", Value: []byte(`"` + ofOwner + `"`)}); err != nil {
		t.Fatal(err)
	}
	asked, err := home.Approvals.Create(t.Context(), approval.Question{Binding: approval.Binding{Kind: approval.Call, Arguments: "x"},
		Shown: json.RawMessage(`{}`)})
	if err != nil || o.execution == "" || o.state == "" {
		t.Fatal(err, older, newer)
	}
	o.approval = asked.ID
	return o
}

// messages are the entry points of one transport.
func (o owned) messages(transport string, ask func(t *testing.T, url, token, message string) string) (rows []entryPoint) {
	request := func(format string) func(*testing.T, string, string) string {
		return func(t *testing.T, token, id string) string {
			return ask(t, o.url, token, strings.ReplaceAll(format, "ID", id))
		}
	}
	method := func(name, params string) func(*testing.T, string, string) string {
		return request(`{"jsonrpc":"2.0","id":2,"method":"` + name + `","params":{` + params + `}}`)
	}
	execution := strings.Repeat("a", 26)
	rows = []entryPoint{
		{"read_workspace_file", "secret.txt", "absent.txt", request(call("read_workspace_file", `{"filename":"ID"}`)), ofOwner},
		{"list_workspace_files", "(none)", "(none)", request(call("list_workspace_files", `{}`)), "secret.txt"},
		{"load_skill", "secret_skill", "absent_skill", request(call("load_skill", `{"name":"ID"}`)), ofOwner},
		{"get_state in code", "secret_state", "absent_state", func(t *testing.T, token, id string) string {
			answer := ask(t, o.url, token, call("execute_code", `{"code":"call get_state {\"name\":\"`+id+`\"}"}`))
			return regexp.MustCompile(`exec_[a-z2-7]{26}|_time_ms\\":\d+`).ReplaceAllString(answer, "")
		}, ofOwner},
		{"resume_execution", o.execution, "exec_" + execution, request(call("resume_execution", `{"execution_id":"ID"}`)), "First?"},
		{"a session", "secret_session", "absent_session", request(call("resume_execution", `{"session_id":"ID"}`)), "exec_"},
		{"resources/list", "(none)", "(none)", method("resources/list", ""), "secret.txt"},
		{"resources/read", "secret.txt", "absent.txt", method("resources/read", `"uri":"workspace://ID"`), ofOwner},
		{"resources/read of a skill", "secret_skill", "absent_skill", method("resources/read", `"uri":"skill://ID"`), ofOwner},
		{"resources/read of a skill's folder", "secret-skill", "absent-skill",
			method("resources/read", `"uri":"skill://ID/scripts/secret_skill.py"`), ofOwner},
	}
	if transport != "2024-11-05" { // which refuses methods that its revision does not have
		rows = append(rows, entryPoint{"skills/get", "secret-skill", "absent-skill", method("skills/get", `"uri":"skill://ID/SKILL.md"`),
			"sha256:"},
			entryPoint{"skills/list", "(none)", "(none)", method("skills/list", ""), "skill://secret-skill/SKILL.md"})
	}
	complete := func(ref, argument string) func(*testing.T, string, string) string {
		return method("completion/complete", `"ref":`+ref+`,"argument":{"name":"`+argument+`","value":"ID"}`)
	}
	rows = append(rows,
		entryPoint{"completion of a file", "secret.txt", "absent.txt",
			complete(`{"type":"ref/resource","uri":"workspace://{+path}"}`, "path"), `"values":["secret.txt"]`},
		entryPoint{"completion of a skill", "secret_skill", "absent_skill", complete(`{"type":"ref/prompt","name":"load_skill"}`, "name"),
			`"values":["secret_skill"]`},
		entryPoint{"completion of a session", "secret_session", "absent_session",
			complete(`{"type":"ref/prompt","name":"execute_code"}`, "session_id"), "secret_session"},
		entryPoint{"completion of an execution", o.execution, "exec_" + execution,
			complete(`{"type":"ref/prompt","name":"resume_execution"}`, "execution_id"), o.execution},
	)
	if transport == "2026-07-28" {
		made := "exec_" + execution + o.state[strings.Index(o.state, "."):]
		rows = append(rows, entryPoint{"requestState", o.state, made,
			method("tools/call", `"name":"execute_code","arguments":{"code":""},"requestState":"ID"`), "First?"})
	} else {
		rows = append(rows, entryPoint{"resources/subscribe", "secret.txt", "absent.txt",
			method("resources/subscribe", `"uri":"workspace://ID"`), `"result":{}`})
	}
	for i := range rows {
		rows[i].name += " over " + transport
	}
	return rows
}

// connections are the entry points with an id of the transport.
func (o owned) connections() []entryPoint {
	send := func(method, body string, header ...string) func(*testing.T, string, string) string {
		return func(t *testing.T, token, id string) string {
			header := append(slices.Clone(header), "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
			ctx, leave := context.WithCancel(t.Context())
			defer leave() // a stream of the owner does not end by itself
			res := sendHTTPContext(t, ctx, method, o.url+"/mcp", body, token, header...)
			if res.StatusCode == http.StatusOK && method == "GET" {
				return "a stream"
			}
			return answer(t, res)
		}
	}
	const absent = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`
	return []entryPoint{
		{"a request on a connection", o.connection, absent, send("POST", call("list_skills", `{}`)), "secret_skill"},
		{"the stream of a connection", o.connection, absent, send("GET", ""), "a stream"},
		{"a resumed stream", o.connection, absent, send("GET", "", "Last-Event-ID", o.request), "a stream"},
		{"a cancellation", o.connection, absent, send("POST", cancel), "202 Accepted"},
		{"a stream of another connection", o.request, absent + "_0", o.resume, "a stream"},
		{"a post to a stream", o.stream, "/sse?sessionid=" + absent, func(t *testing.T, token, path string) string {
			return answer(t, sendHTTP(t, "POST", o.url+path, cancel, token))
		}, "202 Accepted"},
		{"the end of a connection", o.connection, absent, func(t *testing.T, token, id string) string {
			if token == ownerToken { // which the last row may end
				return "204"
			}
			return send("DELETE", "")(t, token, id)
		}, "204"},
	}
}

// resume resumes a stream on a connection of the token's own.
func (o owned) resume(t *testing.T, token, event string) string {
	connection := []string{"Mcp-Session-Id", o.connection, "Mcp-Protocol-Version", "2025-11-25"}
	if token != ownerToken {
		connection = connect(t, o.url, token)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		res := sendHTTPContext(t, ctx, "GET", o.url+"/mcp", "", token, append(connection, "Last-Event-ID", event)...)
		switch {
		case res.StatusCode == http.StatusOK:
			return "a stream"
		case res.StatusCode == http.StatusConflict && time.Now().Before(deadline):
			continue // the server has not noticed yet that the stream of an earlier row was left
		}
		return answer(t, res)
	}
}

// approvals answers an approval as the command line does.
func (o owned) approvals(d *daemon.Daemon) entryPoint {
	return entryPoint{"approvals", o.approval, "aaaaaaaaaa", func(t *testing.T, token, id string) string {
		who := tenant.Local
		if token != ownerToken {
			who, _ = tenant.Parse("alice")
		}
		home, err := d.Tenants.Acquire(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		defer home.Release(t.Context())
		_, err = home.Approvals.Answer(t.Context(), id, approval.Answer{Approve: true, By: approval.CommandLine})
		return errors.Join(errors.New("answered"), err).Error() + fault.Hint(err)
	}, "answered"}
}

// refusals returns the outcomes of the audit lines about ids, for a tenant.
func refusals(t *testing.T, data, who string) (outcomes []string) {
	t.Helper()
	cfg, err := daemon.AuditConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	id, err := tenant.Parse(who)
	if err != nil {
		t.Fatal(err)
	}
	err = audit.Tail(t.Context(), cfg, audit.TailOptions{Last: 1000, Tenant: id}, func(r audit.Record) error {
		if r.Kind == audit.Access && !slices.Contains(outcomes, r.Outcome) {
			outcomes = append(outcomes, r.Outcome)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(outcomes)
	return outcomes
}
