package mcp_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// Models read the schema of a tool, so hidden text in it is as dangerous as in the description.
func TestSchemaTextsAreSanitized(t *testing.T) {
	for schema, want := range map[string]string{
		`{"description":"a\u202e\u001b[31mb","type":"object"}`:                 `{"description":"ab","type":"object"}`,
		`{"properties":{"z":{"title":"x\u2066y"},"a":{"$comment":"\u200fz"}}}`: `{"properties":{"z":{"title":"xy"},"a":{"$comment":"z"}}}`,
		`{"properties":{"description":{"enum":["a\u202e"]}}}`:                  `{"properties":{"description":{"enum":["a\u202e"]}}}`,
		`{"description":"say \"hi\" \\","b":1.0}`:                              `{"description":"say \"hi\" \\","b":1.0}`,
		`{"description":["\u202e"],"default":"\"description\":\"\u202e\""}`:    `{"description":["\u202e"],"default":"\"description\":\"\u202e\""}`,
	} {
		if got := string(mcp.SanitizeTexts([]byte(schema))); got != want {
			t.Errorf("%s\n got  %s\n want %s", schema, got, want)
		}
	}
}
