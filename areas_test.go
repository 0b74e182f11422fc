package sandpiper_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/form/formtest"
)

const allowSchedules = "search: {embeddings: none}\npolicy: {rules: [{name: schedules, tool: sandpiper.create_schedule, decision: allow}]}"

func TestAreas(t *testing.T) {
	c := open(t, sandpiper.Config{YAML: allowSchedules})
	testAreas(t, c)
	clean, types, err := c.Privacy().Sanitize(t.Context(), "Write to ada@example.com")
	if err != nil || !strings.HasPrefix(clean, "Write to [EMAIL_") || !slices.Equal(types, []string{"EMAIL"}) {
		t.Errorf("%q, %q, %v", clean, types, err)
	}
	if text, err := c.Privacy().Restore(t.Context(), clean); err != nil || text != "Write to ada@example.com" {
		t.Errorf("%q, %v", text, err)
	}
	r, err := c.Run(t.Context(), sandpiper.Request{Code: "write_file('people.txt', who)\nwho",
		Vars: map[string]any{"who": "bob@example.com"}})
	if got := result[string](t, r, err); !strings.HasPrefix(got, "[EMAIL_") {
		t.Error(got)
	}
	if text, err := c.Privacy().RestoreExecution(t.Context(), r.ExecutionID); err != nil || text != "bob@example.com" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := c.Privacy().RestoreFile(t.Context(), "people.txt"); err != nil || text != "bob@example.com" {
		t.Errorf("%q, %v", text, err)
	}
}

// testAreas tests the areas that have the same answers after Open and Dial.
func testAreas(t *testing.T, c *sandpiper.Client) {
	t.Run("background", func(t *testing.T) { testBackground(t, c.Background(), c) })
	t.Run("call", func(t *testing.T) { testCall(t, c) })
	t.Run("forms", func(t *testing.T) { testForms(t, c) })
	t.Run("schedules", func(t *testing.T) { testSchedules(t, c) })
	t.Run("state", func(t *testing.T) { testState(t, c.State()) })
	t.Run("workflows", func(t *testing.T) { testWorkflows(t, c.Workflows()) })
}

// wantError reports an error that lacks a text.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the error is %v, want %q", err, text)
	}
}

func testBackground(t *testing.T, b sandpiper.Background, c *sandpiper.Client) {
	ctx := t.Context()
	id, err := b.Dispatch(ctx, sandpiper.BackgroundRequest{
		Code: "result = [name, ask('Which colour?'), wait_for('paid')]",
		Vars: map[string]any{"name": "Ada"}, Timeout: time.Minute, OnRestart: "report",
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Wait(ctx, id)
	if _, ok := errors.AsType[*sandpiper.ExecutionError](err); !ok || r.ExecutionID != id || len(r.Questions) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if s, err := b.Status(ctx, id); err != nil || s.State != "input_required" || s.Ended() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := b.Signal(ctx, id, "paid", map[string]int{"amount": 5}); err != nil {
		t.Error(err)
	}
	if _, err := c.Resume(ctx, id, "blue"); err != nil {
		t.Error(err)
	}
	r, err = b.Wait(ctx, id)
	if got := result[[]any](t, r, err); len(got) != 3 || got[0] != "Ada" || got[1] != "blue" {
		t.Errorf("%v", got)
	}

	endless, err := b.Dispatch(ctx, sandpiper.BackgroundRequest{Code: "progress(1, 2, 'half')\nwhile True: pass"})
	if err != nil {
		t.Fatal(err)
	}
	s := &sandpiper.BackgroundStatus{}
	for deadline := time.Now().Add(30 * time.Second); s.Progress == nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if s, err = b.Status(ctx, endless); err != nil {
			t.Fatal(err)
		}
	}
	if s.State != "running" || !strings.Contains(string(s.Progress), `"half"`) {
		t.Errorf("%+v", s)
	}
	if err := b.Cancel(ctx, endless); err != nil {
		t.Error(err)
	}
	if r, err := b.Wait(ctx, endless); err == nil || r.Success {
		t.Errorf("%+v, %v", r, err)
	}
	states := map[string]string{}
	all, err := b.List(ctx)
	for _, s := range all {
		states[s.ExecutionID] = s.State
	}
	if want := map[string]string{id: "completed", endless: "cancelled"}; err != nil || !maps.Equal(states, want) {
		t.Errorf("%v, %v, want %v", states, err, want)
	}
	_, err = b.Dispatch(ctx, sandpiper.BackgroundRequest{})
	wantError(t, err, "neither code nor task_description")
	_, err = b.Wait(ctx, "exec_none")
	wantError(t, err, "there is no background execution")
}

func testCall(t *testing.T, c *sandpiper.Client) {
	answer, err := c.Call(t.Context(), "get_version", nil)
	if err != nil || !strings.Contains(string(answer), `"sandpiper"`) {
		t.Errorf("%s, %v", answer, err)
	}
	var executed struct{ Result int64 }
	answer, err = c.Call(t.Context(), "execute_code", map[string]any{"code": "n + 1", "context_vars": map[string]int64{"n": 1 << 60}})
	if err := errors.Join(err, json.Unmarshal(answer, &executed)); err != nil || executed.Result != 1<<60+1 {
		t.Errorf("%s, %v", answer, err)
	}
	answer, err = c.Call(t.Context(), "execute_code", struct {
		Code string `json:"code"`
	}{"print('before')\n1 / 0"})
	if e, ok := errors.AsType[*sandpiper.ExecutionError](err); !ok || e.Result.ErrorType != "ZeroDivisionError" ||
		!strings.Contains(string(answer), "before") {
		t.Errorf("%s, %v", answer, err)
	}
	_, err = c.Call(t.Context(), "get_state", map[string]any{"state_file": "none"})
	wantError(t, err, `there is no state "none"`)
	_, err = c.Call(t.Context(), "none", nil)
	wantError(t, err, `there is no tool "none"`)
	_, err = c.Call(t.Context(), "get_version", []int{1})
	wantError(t, err, "must marshal to a JSON object")
}

func testForms(t *testing.T, c *sandpiper.Client) {
	form := `{"type": "object", "title": "Guest", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ` +
		`["name"]}`
	if err := c.Files().Write(t.Context(), "form.json", []byte(form)); err != nil {
		t.Fatal(err)
	}
	r, err := c.Forms().Inspect(t.Context(), "form.json")
	if got := result[struct{ Fields []struct{ Name string } }](t, r, err); len(got.Fields) != 2 || got.Fields[0].Name != "name" {
		t.Errorf("%s", r.Value)
	}
	r, err = c.Forms().Fill(t.Context(), "form.json", map[string]any{"name": "Ada", "size": 1}, "ada.json")
	if got := result[struct{ Unused []string }](t, r, err); !slices.Equal(got.Unused, []string{"size"}) {
		t.Errorf("%s", r.Value)
	}
	r, err = c.Forms().Fill(t.Context(), "form.json", map[string]any{}, "asked.json")
	if err == nil || len(r.Questions) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := c.Resume(t.Context(), r.ExecutionID, map[string]string{"name": "Ada"}); err != nil {
		t.Error(err)
	}
	pdf := formtest.NewBuilder()
	pdf.Page()
	pdf.TextField(10, 10, 100, 20, "total", "Total", 0, "/AA << /C << /S /JavaScript /JS (sum\\(\\)) >> >>")
	if err := c.Files().Write(t.Context(), "form.pdf", pdf.Bytes()); err != nil {
		t.Fatal(err)
	}
	_, err = c.Forms().Fill(t.Context(), "form.pdf", map[string]any{"total": "5"}, "filled.pdf")
	wantError(t, err, "ignore_scripts")
	if _, err := c.Forms().FillWithoutScripts(t.Context(), "form.pdf", map[string]any{"total": "5"}, "filled.pdf"); err != nil {
		t.Error(err)
	}
	_, err = c.Forms().Inspect(t.Context(), "none.pdf")
	wantError(t, err, "FileNotFoundError")
}

func testSchedules(t *testing.T, c *sandpiper.Client) {
	ctx, schedules := t.Context(), c.Schedules()
	if err := c.Skills().Save(ctx, sandpiper.Skill{Name: "report", Code: "def report(x=1): return x"}); err != nil {
		t.Fatal(err)
	}
	wanted := sandpiper.Schedule{
		Name:      "daily",
		Skill:     "report",
		Inputs:    map[string]any{"x": 2.0},
		Cron:      "0 8 * * *",
		TimeZone:  "UTC",
		OnOverlap: "queue",
		OnMissed:  "skip",
	}
	made, err := schedules.Create(ctx, wanted)
	if err != nil || made.State != "active" || made.Source != "agent" || made.Next.UTC().Hour() != 8 {
		t.Fatalf("%+v, %v", made, err)
	}
	all, err := schedules.List(ctx)
	if err != nil || len(all) != 1 || all[0].Skill != "report" || all[0].Cron != wanted.Cron || all[0].TimeZone != "UTC" ||
		all[0].OnOverlap != "queue" ||
		all[0].OnMissed != "skip" || !maps.Equal(all[0].Inputs, wanted.Inputs) {
		t.Errorf("%+v, %v", all, err)
	}
	often, err := schedules.Create(ctx, sandpiper.Schedule{Name: "often", Skill: "report", Every: time.Second})
	if err != nil || often.Every != time.Second || often.Cron != "" {
		t.Errorf("%+v, %v", often, err)
	}
	if answer, err := c.Call(ctx, "create_schedule", map[string]string{"name": "weekly", "skill": "report", "every": "1w"}); err != nil ||
		!strings.Contains(string(answer), `"every 168h0m0s"`) {
		t.Errorf("%s, %v", answer, err)
	}
	if err := schedules.Delete(ctx, "weekly"); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(30 * time.Second); often.LastExecution == "" && time.Now().
		Before(deadline); time.Sleep(50 * time.Millisecond) {
		if all, err = schedules.List(ctx); err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		often = all[1]
	}
	if err := errors.Join(schedules.Delete(ctx, "daily"), schedules.Delete(ctx, "often")); err != nil {
		t.Error(err)
	}
	r, err := c.Background().Wait(ctx, often.LastExecution)
	if got := result[int](t, r, err); got != 1 {
		t.Error(got)
	}
	wantError(t, schedules.Delete(ctx, "daily"), `there is no schedule "daily"`)
	_, err = schedules.Create(ctx, sandpiper.Schedule{Name: "wrong", Skill: "report", Cron: "x"})
	wantError(t, err, "cron")
}

func testState(t *testing.T, states sandpiper.States) {
	if err := errors.Join(states.Save(t.Context(), "n", 1), states.Save(t.Context(), "n", []int{2})); err != nil {
		t.Error(err)
	}
	if s, err := states.Get(t.Context(), "n"); err != nil || s.Name != "n" || string(s.Value) != "[2]" || s.Version != 2 ||
		s.Updated.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := states.Save(t.Context(), "n", nil); err != nil {
		t.Error(err)
	}
	_, err := states.Get(t.Context(), "n")
	wantError(t, err, `there is no state "n"`)
}

const greet = `
name: greet
description: Greets
inputs:
  properties: {who: {type: string}}
  required: [who]
steps:
  - name: text
    type: code_execution
    config: {variables: {who: "${{ inputs.who }}"}, code: result = "hello " + who}
outputs: {text: "${{ steps.text.result }}"}
`

func testWorkflows(t *testing.T, w sandpiper.Workflows) {
	if err := w.Save(t.Context(), greet); err != nil {
		t.Fatal(err)
	}
	all, err := w.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "greet" || all[0].Description != "Greets" || all[0].Origin != "saved" ||
		all[0].Steps != 1 || all[0].Inputs == nil {
		t.Errorf("%+v, %v", all, err)
	}
	r, err := w.Run(t.Context(), "greet", map[string]any{"who": "Ada"})
	if got := result[map[string]string](t, r, err); got["text"] != "hello Ada" {
		t.Errorf("%v", got)
	}
	_, err = w.Run(t.Context(), "greet", nil)
	wantError(t, err, "input who: is missing")
	_, err = w.Run(t.Context(), "none", nil)
	wantError(t, err, `there is no workflow "none"`)
	wantError(t, w.Save(t.Context(), strings.Replace(greet, "steps:", "stepz:", 1)), `no key "stepz"`)
	if err := w.Save(t.Context(), strings.Replace(strings.Replace(greet, `"hello " + who`, "1 / 0", 1), "name: greet", "name: fail",
		1)); err != nil {
		t.Fatal(err)
	}
	r, err = w.Run(t.Context(), "fail", map[string]any{"who": "Ada"})
	if _, ok := errors.AsType[*sandpiper.ExecutionError](err); !ok || r.ErrorType != "ZeroDivisionError" {
		t.Errorf("%+v, %v", r, err)
	}
}

// The code in docs/embedding.md that uses a client is that of a tested example.
func TestCodeOfEmbeddingDocumentIsAnExample(t *testing.T) {
	document, err := os.ReadFile("docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(document, -1) {
		if !strings.HasPrefix(string(m[1]), "id, err :=") {
			continue
		}
		tested++
		if !strings.Contains(strings.ReplaceAll(string(examples), "\n\t", "\n"), string(m[1])) {
			t.Errorf("no example has\n%s", m[1])
		}
	}
	if tested != 1 {
		t.Errorf("%d blocks", tested)
	}
}

// TestAnswersAreRestoredAfterARestart restores answers in another process: the result of a background
// execution is stored, and for another answer the error says what works.
func TestAnswersAreRestoredAfterARestart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, sandpiper.Config{DataDir: dir})
	id, err := c.Background().Dispatch(t.Context(), sandpiper.BackgroundRequest{Code: "print('to', who)\n{'mail': who}",
		Vars: map[string]any{"who": "ada@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Background().Wait(t.Context(), id); err != nil || strings.Contains(string(r.Value), "@") {
		t.Fatalf("%+v, %v", r, err)
	}
	other, err := c.Run(t.Context(), sandpiper.Request{Code: "who", Vars: map[string]any{"who": "bob@example.com"}})
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	c = open(t, sandpiper.Config{DataDir: dir})
	if text, err := c.Privacy().RestoreExecution(t.Context(), id); err != nil || !strings.Contains(text, "to ada@example.com") ||
		!strings.Contains(text, `{"mail":"ada@example.com"}`) {
		t.Errorf("%q, %v", text, err)
	}
	_, err = c.Privacy().RestoreExecution(t.Context(), other.ExecutionID)
	wantError(t, err, "until the server ends")
	wantError(t, err, "write the tokens in text")
	waits, err := c.Background().Dispatch(t.Context(), sandpiper.BackgroundRequest{Code: "wait_for('never')"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Privacy().RestoreExecution(t.Context(), waits)
	wantError(t, err, "has no result to restore: it is ")
	if err := c.Background().Cancel(t.Context(), waits); err != nil {
		t.Error(err)
	}
}

// TestTimeOfPersonIsNoExecutionTime lets a person take a second in each way in which code waits for one.
func TestTimeOfPersonIsNoExecutionTime(t *testing.T) {
	const thinks = time.Second
	c := open(t, sandpiper.Config{
		Servers: map[string]*mcp.Server{"calculator": calculator()},
		YAML:    "policy: {rules: [{name: sums, tool: calculator.add, decision: ask}]}",
	})
	call := func(tool string, args map[string]any) (answer struct {
		ID        string               `json:"execution_id"`
		Time      *int64               `json:"execution_time_ms"`
		Questions []sandpiper.Question `json:"questions"`
		State     string
		Result    json.RawMessage
	}) {
		t.Helper()
		text, err := c.Call(t.Context(), tool, args)
		if _, failed := errors.AsType[*sandpiper.ExecutionError](err); err != nil && !failed {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	check := func(way string, ms *int64) {
		t.Helper()
		if ms == nil || *ms >= thinks.Milliseconds() {
			t.Errorf("%s: execution_time_ms is %v", way, ms)
		}
	}
	asked := call("execute_code", map[string]any{"code": "ask('Which colour?')"})
	time.Sleep(thinks)
	check("a question", call("resume_execution", map[string]any{"execution_id": asked.ID, "answer": "blue"}).Time)

	waits := call("execute_code", map[string]any{"code": "from servers.calculator import add\nadd(a=2, b=3)['sum']"})
	time.Sleep(thinks)
	if err := c.Approvals().Approve(t.Context(), waits.Questions[0].Approval); err != nil {
		t.Fatal(err)
	}
	check("an approval", call("resume_execution", map[string]any{"execution_id": waits.ID}).Time)

	id := call("dispatch_background_task", map[string]any{"code": "ask('Which colour?')"}).ID
	if s := call("wait_for_background_task", map[string]any{"execution_id": id}); s.State != "input_required" {
		t.Fatalf("%+v", s)
	}
	time.Sleep(thinks)
	call("resume_execution", map[string]any{"execution_id": id, "answer": "blue"})
	ended := call("wait_for_background_task", map[string]any{"execution_id": id})
	var result struct {
		Time *int64 `json:"execution_time_ms"`
	}
	if err := json.Unmarshal(ended.Result, &result); err != nil {
		t.Fatalf("%+v %v", ended, err)
	}
	check("a background execution", result.Time)
}
