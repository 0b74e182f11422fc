package lookup_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// secrets are values that no answer about a tool may contain.
const secrets = `{"orders":[{"id":4711,"customer":"Ann Example","mail":"ann@example.com","note":null,"lines":[{"sku":"XK-99","qty":2}]}],
	"by_mail":{"ann@example.com":{"total":3},"bob@example.com":{"total":4}},
	"by_name":{"Ann":1,"Bob":2,"Carla":3},
	"by_id":{"cus_9Xk2LmQ4":{"n":1},"cus_8Yk3LmQ5":{"n":2}},
	"by_iban":{"AT611904300234573201":1}}`

// TestSearchShowsFieldsAfterOneCall observes one answer of a tool without output schema: the next
// search, the definition and its example have the fields, and none of the values.
func TestSearchShowsFieldsAfterOneCall(t *testing.T) {
	f, _ := finder(t)
	s := shapes(t)
	f = lookup.WithShapes(f, s)
	if got := encode(t, brief(t, f, lookup.Query{Text: "issues"})); strings.Contains(got, "->") {
		t.Errorf("before a call: %s", got)
	}
	s.Observe(tool.Ref{Server: "git-hub", Tool: "list-issues"}, json.RawMessage(secrets))
	got := encode(t, brief(t, f, lookup.Query{Text: "issues"}))
	const want = "list_issues(owner: str) -> {by_iban, by_id: dict[str, {n}], by_mail: dict[str, {total}], by_name, orders: [{customer, " +
		"id, lines, mail, note}]}"
	if !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	d, err := f.Define(t.Context(), s, "list_issues", "")
	if err != nil || !strings.Contains(d.ResultExample, `'customer': 'text'`) || !strings.Contains(d.ResultExample, `'qty': 1`) ||
		!strings.Contains(d.ResultExample, `'by_mail': {'key': {'total': 1}}`) {
		t.Errorf("%v, %s", err, d.ResultExample)
	}
	got += encode(t, d)
	short, err := f.DefineNames(t.Context(), s, lookup.Names{Names: json.RawMessage(`"list_issues"`)})
	if c, ok := short.(lookup.Compact); err != nil || !ok || !strings.Contains(c.ResultExample, `'by_id': {'key': {'n': 1}}`) ||
		tokens.Count(c.ResultExample) > 60 {
		t.Errorf("%v, %+v", err, short)
	}
	got += encode(t, short)
	for _, value := range []string{"4711", "Ann", "Bob", "Carla", "example.com", "XK-99", "cus_", "AT61"} {
		if strings.Contains(got, value) {
			t.Errorf("%q is shown: %s", value, got)
		}
	}
}
