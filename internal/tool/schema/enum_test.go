package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

func TestEnum(t *testing.T) {
	for property, c := range map[string]struct {
		schema string
		want   []string
	}{
		"list":         {`{"enum":["open","closed"]}`, []string{"open", "closed"}},
		"numbers":      {`{"enum":[1, 2.5, true, null]}`, []string{"1", "2.5", "true"}},
		"alternatives": {`{"anyOf":[{"const":"a"},{"oneOf":[{"enum":["b"]}]},{"type":"null"}]}`, []string{"a", "b"}},
		"elements":     {`{"type":"array","items":{"enum":["x"]}}`, []string{"x"}},
		"any":          {`{"type":"string"}`, nil},
		"always":       {`true`, nil},
		"malformed":    {`{"enum":"x"}`, nil},
		"deep":         {`{"anyOf":[{"anyOf":[{"anyOf":[{"anyOf":[{"const":"a"}]}]}]}]}`, nil},
	} {
		got := schema.Enum([]byte(`{"type":"object","properties":{"other":{"enum":["o"]},"`+property+`":`+c.schema+`}}`), property)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", property, diff)
		}
	}
	if got := schema.Enum([]byte(`{"anyOf":[{"properties":{"p":{"const":"a"}}},{"allOf":[{"properties":{"p":{"const":"b"}}}]}]}`),
		"p"); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("of alternatives: %q", got)
	}
	if got := schema.Enum([]byte(`{"type":"object"}`), "absent"); got != nil {
		t.Errorf("got %q", got)
	}
}
