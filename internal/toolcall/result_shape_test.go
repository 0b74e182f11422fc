package toolcall_test

import (
	"encoding/json"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// value returns the value that code receives when crm.read answers res.
func (r *rig) value(t *testing.T, res tool.Result) string {
	t.Helper()
	r.answer = func(tool.Call) (tool.Result, error) { return res, nil }
	res, err := r.Caller.Call(t.Context(), call("crm", "read", `{}`))
	v, ok := res.Value()
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	return string(v)
}

// One sentence does not change the type of the tool's other results.
func TestEachResultIsDecodedByItself(t *testing.T) {
	r := newRig(t)
	for i, c := range []struct{ answer, want string }{
		{`[]`, `[]`},
		{`[{"id": 1}]`, `[{"id": 1}]`},
		{``, `""`},
		{`null`, `"null"`},
		{`42`, `"42"`},
		{`No results found.`, `"No results found."`},
		{`[]`, `[]`},
		{`[{'id': 1}]`, `"[{'id': 1}]"`},
		{`{"id": 1}`, `{"id": 1}`},
	} {
		if got := r.value(t, text(c.answer)); got != c.want {
			t.Errorf("answer %d, %s, is %s, not %s", i+1, c.answer, got, c.want)
		}
	}
	structured := text("one")
	structured.Structured = json.RawMessage(`{"id":1}`)
	if got := r.value(t, structured); got != `{"id":1}` {
		t.Errorf("an answer with structured content is %s", got)
	}
	typ, _, err := r.home.Shapes.Find(t.Context(), tool.Ref{Server: "crm", Tool: "read"})
	want := `{"items":{"properties":{"id":{"type":"integer"}},"required":["id"],"type":"object"},"properties":{"id":{"type":"integer"}},"required":["id"],"type":["array","object","string"]}`
	if got := string(typ.Schema()); err != nil || got != want {
		t.Errorf("its type is %s, %v", got, err)
	}
}

func TestDeclaredOutputSchemaDecides(t *testing.T) {
	r := newRig(t)
	declare := func(output string) {
		t.Helper()
		yes := true
		listing := catalog.Listing{Tools: []tool.Definition{{Ref: tool.Ref{Server: "crm", Tool: "read"}, Input: json.RawMessage(`{}`),
			Output: json.RawMessage(output), Hints: tool.Hints{ReadOnly: &yes}}}}
		if _, err := r.cat.Put(t.Context(), "crm", listing); err != nil {
			t.Fatal(err)
		}
		if _, err := r.cat.Accept(t.Context(), "crm"); err != nil {
			t.Fatal(err)
		}
	}
	r.value(t, text("it is text")) // before the server declared anything
	wrapped := tool.Result{Structured: json.RawMessage(`{"result":[]}`)}
	declare(`{"type":"object"}`)
	if got := r.value(t, text(`{"id":1}`)); got != `{"id":1}` {
		t.Errorf("an object is %s", got)
	}
	if got := r.value(t, wrapped); got != `{"result":[]}` {
		t.Errorf("an object with a result is %s", got)
	}
	declare(`{"type":"object","properties":{"result":{"type":"array"}},"x-fastmcp-wrap-result":true}`)
	if got := r.value(t, wrapped); got != `[]` {
		t.Errorf("a wrapped list is %s", got)
	}
}

func TestWrappedResultWithoutSchemaIsUnwrapped(t *testing.T) {
	r := newRig(t)
	res := text(`[1,2]`)
	res.Structured = json.RawMessage(`{"result":[1,2]}`)
	if got := r.value(t, res); got != `[1,2]` {
		t.Errorf("it is %s", got)
	}
}
