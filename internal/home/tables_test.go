package home_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill/skilltest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/usage"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// century is a timeout that no test reaches.
const century = 100 * 365 * 24 * time.Hour

// withVault configures a data directory whose tenants have vaults.
func withVault(root string) home.Config {
	key := func() ([]byte, error) { return bytes.Repeat([]byte{1}, 32), nil }
	process := journal.NewProcess(filepath.Join(root, "processes"), key)
	settings := func(tenant.ID, string) home.Settings { return home.Settings{Quotas: quota.Limits{quota.Calls: 1000}} }
	return home.Config{
		Root:       root,
		Settings:   settings,
		Process:    process,
		RecentCode: century,
		Learn:      century,
		Vault: func(id tenant.ID, db *store.DB) *vault.Vault {
			master, _ := vault.OpenMaster(context.Background(), "file", root)
			return vault.New(vault.Config{DB: db, Tenant: id, Master: master})
		},
		Approvals: func(id tenant.ID, db *store.DB) (*approval.Store, error) {
			return approval.New(approval.Config{DB: db, Tenant: id, Key: make([]byte, 32), Timeout: century})
		},
	}
}

var greetTool = tool.Definition{Ref: tool.Ref{Server: "mail", Tool: "greet"},
	Input: []byte(`{"type": "object", "properties": {"name": {"type": "string"}}}`)}

// fill stores data in every table and directory of the current schema.
func fill(t *testing.T, h *home.Home) {
	for version := 1; version <= 2; version++ {
		code := fmt.Sprintf("def greet(name):\n    return 'hello %d, ' + name\n", version)
		if _, err := h.Skills.Save(t.Context(), skill.Draft{
			Name:         "greet",
			Code:         code,
			Description:  "Greets by name.",
			Tags:         []string{"text", "ünï"},
			Tools:        skill.Tools{skill.NewTool(greetTool)},
			Instructions: "Greet people.",
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Skills.AddUses(t.Context(), []string{"greet"}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := skilltest.Open(h).Add(t.Context(), "greet",
		skilltest.Test{Code: "from skills import greet; greet('Ada')", Result: shape.Learn([]byte(`"x"`))}); err != nil {
		t.Fatal(err)
	}
	h.Recent.Add(recent.Code{Execution: "exec_recent", Code: "1 + 1"})
	h.Learned.AddSearch("greet the guest", []tool.Ref{{Server: "mail", Tool: "send"}, greetTool.Ref})
	h.Learned.AddCall(greetTool.Ref)
	if _, err := state.Open(h).Put(t.Context(), state.Draft{Name: "cursor", Value: []byte(`{"page":3}`)}); err != nil {
		t.Fatal(err)
	}
	if err := saved.Open(h).Save(t.Context(), "nightly", []byte("name: nightly")); err != nil {
		t.Fatal(err)
	}
	if err := fillWorkflowRun(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	fillSession(t, h)
	fillCall(t, h)
	if _, err := h.Approvals.Create(t.Context(), mayI); err != nil {
		t.Fatal(err)
	}
	fillGrant(t, h)
	tokens, err := h.Vault.Tokenize(t.Context(), "report", []vault.Value{ada})
	if err == nil {
		_, err = h.Vault.Exceptions.Allow(t.Context(), vault.Exception{Type: detect.Email}, ada.Text)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"data/token.txt": string(tokens[0]), "data/numbers.csv": "a,b\n1,2\n",
		".results/exec_1.json": "[1, 2]"} {
		if err := h.Workspace.Write(t.Context(), name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
}

// fillGrant approves a request with an origin for all calls of its tool.
func fillGrant(t *testing.T, h *home.Home) {
	q := mayI
	q.Execution, q.Arguments = "exec_4", rand.Text()
	q.Origin = approval.Origin{Origin: tool.Origin{Code: "crm.send()", Client: "claude-code 2"}, Lasting: true}
	r, err := h.Approvals.Create(t.Context(), q)
	if err == nil {
		_, err = h.Approvals.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: approval.CommandLine, Scope: grant.Tool})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fillSession creates a session with a checkpoint, or extends it.
func fillSession(t *testing.T, h *home.Home) {
	number, err := h.Sessions.Checkpoint(t.Context(), "report", 0, []byte(`1`), []byte(`"begun"`))
	if err != nil {
		t.Fatal(err)
	}
	step := session.Step{
		Number:      number,
		Description: "Add",
		Code:        "result = x + 1",
		Vars:        []byte(`{"x": 1}`),
		Result:      "2",
		Output:      "added",
		Began:       time.Now(),
		Files:       []string{"/workspace/state/results.json"},
		Record:      []byte("calls"),
		Recorded:    session.Complete,
	}
	if _, err := h.Sessions.Append(t.Context(), "report", step); err != nil {
		t.Fatal(err)
	}
}

// fillCall records a call and infers a schema from its answer.
func fillCall(t *testing.T, h *home.Home) {
	id, err := h.Journal.Begin(t.Context(), tool.Call{Ref: send, Execution: "exec_1", Args: []byte(`{"to":"a"}`)})
	if err == nil {
		err = h.Journal.Done(t.Context(), id, journal.Answered)
	}
	if err != nil {
		t.Fatal(err)
	}
	fillRun(t, h)
	h.Shapes.Observe(send, []byte(`{"id": 5}`))
	if err := h.Quotas.Take(t.Context(), quota.Calls); err != nil {
		t.Fatal(err)
	}
	h.Usage.AddModelText("report", "hello world")
	h.Usage.AddToolCall("report", "hello world")
}

// fillRun leaves an execution that was interrupted during a call.
func fillRun(t *testing.T, h *home.Home) {
	ask := journal.HostCall{Ref: send, Args: []byte(`{"to":"a"}`)}
	r := h.Journal.NewRecord("exec_2", func() ([]byte, error) { return []byte("request"), nil }, false)
	c, err := r.Next(t.Context(), ask)
	if err == nil {
		r.SetAnswer(c.Number, journal.Answer{Value: []byte("7")})
		err = r.Flush(t.Context())
	}
	var s journal.RecordedStep
	if err == nil {
		s, err = journal.BeginStep(t.Context(), r, journal.StepKey{Name: "fetch", N: 1})
	}
	if err == nil {
		err = journal.EndStep(t.Context(), r, s.Number, journal.StepValue{JSON: []byte("8")})
	}
	if err == nil {
		err = r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"})
	}
	if _, wrong := h.Runs.Find(t.Context(), "exec_3"); err == nil && wrong != nil { // an earlier fill added it
		err = h.Runs.Add(t.Context(), journal.Run{Execution: "exec_3", State: journal.Queued, OnRestart: journal.ReportOnRestart,
			Request: []byte("background")})
	}
	if err == nil {
		err = h.Runs.Signal(t.Context(), "exec_3", "go", []byte(`1`))
	}
	if err == nil {
		nightly := schedule.Spec{Name: "nightly", Cron: "0 2 * * *", TimeZone: "Europe/Berlin", Skill: "greet",
			Inputs: []byte(`{"name":"a"}`)}
		_ = schedule.Open(h).Delete(t.Context(), time.Now(), nil, "nightly") // of an earlier fill
		_, err = schedule.Open(h).Create(t.Context(), time.Now(), nil, nightly)
	}
	if err == nil {
		_, err = schedule.Open(h).RunNow(t.Context(), time.Now(), nil, "nightly",
			func(schedule.Spec) ([]byte, error) { return []byte("request"), nil })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// expectRun checks the execution that fillRun left.
func expectRun(t *testing.T, h *home.Home) {
	r, request, err := h.Journal.OpenRecord(t.Context(), "exec_2", func([]byte) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"})
	c, err := r.Next(t.Context(), journal.HostCall{Ref: send, Args: []byte(`{"to":"a"}`)})
	if err != nil || c.Answer == nil || string(c.Answer.Value) != "7" || string(request) != "request" {
		t.Errorf("the run is now %+v, %v", c, err)
	}
	if e, err := h.Runs.Find(t.Context(), "exec_3"); err != nil || string(e.Request) != "background" {
		t.Errorf("the background execution is now %+v, %v", e, err)
	}
	all, err := schedule.Open(h).List(t.Context(), time.Now(), nil)
	if err != nil || len(all) != 1 || all[0].Cron != "0 2 * * *" || string(all[0].Inputs) != `{"name":"a"}` || all[0].Last == nil {
		t.Errorf("the schedules are now %+v, %v", all, err)
	}
	if s, err := journal.BeginStep(t.Context(), r, journal.StepKey{Name: "fetch", N: 1}); err != nil || s.Value == nil ||
		string(s.Value.JSON) != "8" {
		t.Errorf("the step is now %+v, %v", s, err)
	}
}

// expectSession checks the content that fillSession wrote first.
func expectSession(t *testing.T, h *home.Home) {
	s, err := h.Sessions.Find(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := h.Sessions.Replay(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	task, at := s.Tasks[0], s.Checkpoint
	if task.ID != "task_001" || task.Code != "result = x + 1" || task.Result != "2" || task.Output != "added" ||
		task.Description != "Add" ||
		at.LastTask != "task_001" || string(at.Step) != "1" || string(at.Context) != `"begun"` || task.Timestamp.Year() < 2026 ||
		!cmp.Equal(s.StateFiles, []string{"/workspace/state/results.json"}) || string(steps[0].Vars) != `{"x": 1}` {
		t.Errorf("the session is now %+v", s)
	}
	if record, err := h.Sessions.Record(t.Context(), "report", 1); err != nil || string(record) != "calls" {
		t.Errorf("the record of the step is now %q, %v", record, err)
	}
	if p, err := h.Workspace.Read(t.Context(), "sessions/report.json", 0, 0); err != nil || !strings.Contains(string(p.Content),
		"result = x + 1") {
		t.Errorf("projection contains %q, %v", p.Content, err)
	}
}

var send = tool.Ref{Server: "crm", Tool: "send"}

// expectCall checks the call and the shape that fill left.
func expectCall(t *testing.T, h *home.Home) {
	calls, err := h.Journal.List(t.Context(), 10)
	if err != nil || len(calls) == 0 {
		t.Fatal(calls, err)
	}
	if c := calls[len(calls)-1]; c.Ref != send || c.Execution != "exec_1" || c.Outcome != journal.Answered || c.Ended.Before(c.Began) ||
		len(c.Arguments) != 64 {
		t.Errorf("the call is now %+v", c)
	}
	if typ, ok, err := h.Shapes.Find(t.Context(), send); err != nil || !ok ||
		string(typ.Schema()) != `{"properties":{"id":{"type":"integer"}},"required":["id"],"type":"object"}` {
		t.Errorf("the shape is now %s, %t, %v", typ.Schema(), ok, err)
	}
}

// expect checks the content that fill wrote.
func expect(t *testing.T, h *home.Home) {
	sk, err := h.Skills.Find(t.Context(), "greet", 0)
	if err != nil {
		t.Fatal(err)
	}
	m := sk.Metadata
	if sk.Code != "def greet(name):\n    return 'hello 2, ' + name\n" || m.Version != 2 || m.Description != "Greets by name." ||
		!cmp.Equal(m.Tags, []string{"text", "ünï"}) || m.Created.Year() < 2026 || m.Updated.Before(m.Created) || len(m.CodeHash) != 64 {
		t.Errorf("the skill is now %+v", sk)
	}
	if len(m.Tools) != 1 || m.Tools[0].Ref != greetTool.Ref || m.Uses != 1 || m.Successes != 1 {
		t.Errorf("the skill now uses %+v, and was used %d times", m.Tools, m.Uses)
	}
	if c, err := h.Recent.Find(t.Context(), "exec_recent"); err != nil || c.Code != "1 + 1" {
		t.Errorf("the recent code is %+v, %v", c, err)
	}
	want := []search.Use{{Server: "mail", Tool: "greet", Terms: []string{"greet", "guest"}, Searches: 1, Lower: 1}}
	if d := cmp.Diff(want, h.Learned.Uses(t.Context()).All()); d != "" {
		t.Error("the used tools:", d)
	}
	if all, err := skilltest.Open(h).List(t.Context(), "greet"); err != nil || len(all) != 1 ||
		all[0].Code != "from skills import greet; greet('Ada')" {
		t.Errorf("the tests are %+v, %v", all, err)
	}
	if sk.Instructions != "Greet people." {
		t.Errorf("the instructions are %q", sk.Instructions)
	}
	if v, err := state.Open(h).Get(t.Context(), "cursor"); err != nil || string(v.Value) != `{"page":3}` {
		t.Errorf("the state is %s, %v", v.Value, err)
	}
	if text, err := saved.Open(h).Find(t.Context(), "nightly"); err != nil || string(text) != "name: nightly" {
		t.Errorf("the workflow is %q, %v", text, err)
	}
	if r, err := journal.FindWorkflowRun(t.Context(), h.Runs, "exec_1"); err != nil || r.Workflow != "nightly" ||
		string(r.Request) != "code" || string(r.Result) != "1" {
		t.Errorf("the run is %+v, %v", r, err)
	}
	for name, want := range map[string]string{
		"data/numbers.csv": "a,b\n1,2\n", ".results/exec_1.json": "[1, 2]", "skills/greet.py": sk.Code,
	} {
		if p, err := h.Workspace.Read(t.Context(), name, 0, 0); err != nil || string(p.Content) != want {
			t.Errorf("%s holds %q, %v", name, p.Content, err)
		}
	}
	expectSession(t, h)
	expectCall(t, h)
	if r, err := h.Usage.Find(t.Context(), "report"); err != nil || r != (usage.Totals{Conversations: 1, Calls: 1, Saved: 2, Spent: 2}) {
		t.Errorf("usage is %+v, %v", r, err)
	}
	expectValue(t, h)
	expectRun(t, h)
	expectApproval(t, h)
	expectGrant(t, h)
}

var mayI = approval.Question{
	Binding: approval.Binding{
		Kind:       approval.Call,
		Execution:  "exec_1",
		Occurrence: 1,
		Ref:        send,
		Schema:     "s",
		Arguments:  "a",
	},
	Session: "report", Rule: "default", Shown: []byte(`{"to":"a"}`),
}

// expectApproval checks the request that fill created.
func expectApproval(t *testing.T, h *home.Home) {
	all, err := h.Approvals.List(t.Context(), true)
	if err != nil || !slices.ContainsFunc(all, func(r approval.Request) bool { return cmp.Equal(r.Question, mayI) }) {
		t.Errorf("the approvals are now %+v, %v", all, err)
	}
}

// expectGrant checks what fillGrant left.
func expectGrant(t *testing.T, h *home.Home) {
	all, err := h.Approvals.Grants.List(t.Context())
	if err != nil || len(all) == 0 || all[0].Scope != grant.Tool || all[0].Ref != send || all[0].Schema != "s" || !all[0].Expires.IsZero() {
		t.Fatalf("the grants are now %+v, %v", all, err)
	}
	if r, err := h.Approvals.Find(t.Context(), all[0].ID); err != nil || r.Origin.Code != "crm.send()" ||
		r.Origin.Client != "claude-code 2" {
		t.Errorf("the approval is now %+v, %v", r, err)
	}
}

var ada = vault.Value{Type: detect.Email, Text: "Ada@example.com"}

// expectValue checks that token maps to the value that fill stored in the vault.
func expectValue(t *testing.T, h *home.Home) {
	p, err := h.Workspace.Read(t.Context(), "data/token.txt", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	token := vault.Token(p.Content)
	if got, err := h.Vault.Restore(t.Context(), "report", []vault.Token{token}); err != nil || got[token] != ada {
		t.Errorf("%s is now %v, %v", token, got, err)
	}
}

// TestKeepsEveryTable writes to every table, and reads and writes again after the home was closed.
func TestKeepsEveryTable(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	ts := open(t, withVault(root))
	h := acquire(t, ts, "local")
	fill(t, h)
	h.Release(t.Context())
	if err := ts.Close(); err != nil {
		t.Fatal(err)
	}
	h = acquire(t, open(t, withVault(root)), "local")
	expect(t, h)
	fill(t, h) // the skill gets versions 3 and 4
	if sk, err := h.Skills.Find(t.Context(), "greet", 0); err != nil || sk.Metadata.Version != 4 {
		t.Errorf("after two more saves: %+v, %v", sk, err)
	}
	if all, err := h.Quotas.Status(t.Context()); err != nil || len(all) != 1 || all[0].Used != 2 {
		t.Errorf("the quotas are %+v, %v", all, err)
	}
	if s, err := h.Sessions.Find(t.Context(), "report"); err != nil || len(s.Tasks) != 2 {
		t.Errorf("after one more step: %+v, %v", s, err)
	}
}

// fillWorkflowRun stores an ended run of a workflow.
func fillWorkflowRun(ctx context.Context, h *home.Home) error {
	if _, err := journal.FindWorkflowRun(ctx, h.Runs, "exec_1"); err == nil { // an earlier fill stored it
		return nil
	}
	r := h.Journal.NewRecord("exec_1", func() ([]byte, error) { return []byte("code"), nil }, false)
	return errors.Join(r.Flush(ctx), journal.SetWorkflow(ctx, h.Runs, "exec_1", "nightly", "2"),
		r.End(ctx, journal.End{State: journal.Ended, Outcome: journal.Succeeded, Result: []byte("1"), Forget: true}))
}
