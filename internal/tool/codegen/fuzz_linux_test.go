package codegen_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// hostile has texts that try to break out of a string literal.
var hostile = []string{
	"", "class", "__init__", "__class__", "aio", "list", "Any", "Literal", "TypedDict", "_sandpiper", "print", "None", "📈", "größe", "ⸯ",
	"ℌ",
	"a\"\"\"\nimport os\nos.system('id')\n\"\"\"", `""" + __import__("os") + """`, `\`, `\\`, `\"""`, "a\\", `"`, `""`, `"""`, `'''`,
	"\x00\x1b[2J",
	"\u202eevil\u2066", "\U000E0041\U000E0042tag", "\u2028line\u0085line\rline", "\xff\xfe", `\N{BULLET}\x41\u0041\777`, "{x}", "%s",
	"# -*- coding: utf-7 -*-",
	"): pass\nimport os #", "x=1, *, y", strings.Repeat("n", 300), strings.Repeat(`\"`, 2000), "a\tb", "\ufeff", "true", "if", "match", "ª",
	"²",
}

// schemas has unusual and invalid schemas.
var schemas = []string{
	``, `{`, `null`, `true`, `false`, `[]`, `"object"`, `3`, `{}`, `{"type":"object"}`, `{"type":["object","null"]}`, `{"type":7}`,
	`{"type":[[]]}`,
	`{"properties":[]}`, `{"properties":{"a":true,"b":false,"c":null,"d":3,"e":"x","f":[]},"required":["a","b","z",7,null,"z"]}`,
	`{"properties":{"class":{"type":"string"},"class_":{},"_sandpiper":{},"__x":{},"more":{},"":{},"\u0000":{},"a ` +
		`b":{},"a-b":{},"a_b":{}},"required":["class"],"additionalProperties":true}`,
	`{"$ref":"#"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{"$ref":"http://x/y"}`,
	`{"$ref":"#/%zz/~2"}`, `{"$ref":"#/"}`,
	`{"properties":{"n":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"value":{"type":"integer"},"next":{"$ref":"#/$defs/node"},"all":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`,
	`{"properties":{"n":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`,
	`{"allOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"a":{"$ref":"#"}}}`,
	`{"properties":{"x":{"enum":[]},"y":{"enum":[1,1.5,"a",null,true,{"a":1},[1]]},"z":{"enum":["a"],"type":"integer","default":"b"},"w":{"const":"\"\"\"\\"}}}`,
	`{"properties":{"x":{"type":"integer","default":"5"},"y":{"type":"string","default":5},"z":{"type":"number","default":1e400},"v":{"type":"number","default":-1e-7},"w":{"type":"integer","default":1e3},"u":{"default":[1]},"t":{"type":"boolean","default":"true"}}}`,
	`{"properties":{"o":{"type":"object","properties":{"from":{},"a-b":{},"__private":{},"str":{"type":"string"},"o":{"type":"object","properties":{"O":{"type":"string"}}}}}}}`,
	`{"properties":{"t":{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}],"items":false},"u":{"type":"array","items":[{},{"type":"null"}]},"v":{"type":"array","items":false},"w":{"type":"array","prefixItems":[]}}}`,
	`{"properties":{"m":{"type":"object","additionalProperties":{"type":"integer"}},"p":{"patternProperties":{"^a":{"type":"string"},"^b":{"type":"null"}}},"q":{"additionalProperties":false,"type":"object"}},"patternProperties":{"x":{"type":"integer"}}}`,
	`{"properties":{"x":{"not":{}},"y":{"allOf":[{"type":"string"},{"type":"integer"}]},"z":{"oneOf":[]},"w":{"anyOf":[true,false]},"v":{"anyOf":7},"u":{"type":"string","nullable":true}},"if":{},"then":{"properties":{"q":{}},"required":["q"]},"else":true}`,
	`{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind"]},{"properties":{"kind":{"const":"b"}}}]}`,
	strings.Repeat(`{"properties":{"a":`, 200) + `{}` + strings.Repeat(`}}`, 200),
	strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000),
	`{"properties":{"a":{"type":"array","items":` + strings.Repeat(`{"type":"array","items":`,
		40) + `{"enum":["x","y"]}` + strings.Repeat(`}`, 40) + `}}}`,
}

// FuzzGenerate checks that any server text yields valid Python with only the
// allowed syntax.
func FuzzGenerate(f *testing.F) {
	for i, text := range hostile {
		f.Add(text, hostile[len(hostile)-1-i], text, schemas[i%len(schemas)], `{"properties":{"a":{"type":"string"}}}`)
	}
	for i, schema := range schemas {
		f.Add("list", "list", "Lists.", schema, schemas[len(schemas)-1-i])
	}
	for _, name := range []string{"str", "int", "dict", "Any", "Result", "NotRequired", "TypedDict", "_Any", "servers", "sys"} {
		f.Add(name, name, name, `{"properties":{"`+name+`":{"type":"object","properties":{"`+name+`":{"enum":["a",1]},"_`+name+
			`":{"type":"array","items":{"type":"integer"}}}}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`)
	}
	f.Fuzz(func(t *testing.T, server, name, text, input, output string) {
		d := tool.Definition{Ref: tool.Ref{Server: server, Tool: name}, Title: text, Description: text, Input: []byte(input),
			Output: []byte(output)}
		other := d
		other.Tool = text
		checkSyntax(t, codegen.Server{
			Name:        server,
			Title:       name,
			Description: text,
			Tools:       []tool.Definition{d, other},
			Resources:   true,
			Prompts:     true,
		})
	})
}

// FuzzAPI checks the same for any OpenAPI document.
func FuzzAPI(f *testing.F) {
	for i, text := range hostile {
		f.Add(text, hostile[len(hostile)-1-i], text, schemas[i%len(schemas)])
	}
	for _, schema := range schemas {
		f.Add("list", "body", "Lists.", schema)
	}
	f.Fuzz(func(t *testing.T, id, name, text, schema string) {
		if !json.Valid([]byte(schema)) {
			schema = "{}"
		}
		raw := json.RawMessage(schema)
		content := map[string]any{"application/json": map[string]any{"schema": raw}}
		parseSchema, err := json.Marshal(map[string]any{
			"openapi": "3.0.3", "info": map[string]any{"title": text, "description": text, "version": name},
			"servers": []any{map[string]any{"url": "http://127.0.0.1:1"}},
			"paths": map[string]any{"/" + name: map[string]any{
				"get": map[string]any{"operationId": id, "summary": text, "description": name, "parameters": []any{
					map[string]any{"name": name, "in": "query", "description": text, "schema": raw}, map[string]any{"name": name,
						"in": "header", "required": true},
				}, "responses": map[string]any{"200": map[string]any{"content": content}}},
				"post": map[string]any{"operationId": text, "requestBody": map[string]any{"description": text, "content": content}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "api.json")
		if err := os.WriteFile(path, parseSchema, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path}})
		if err != nil {
			return
		}
		defer a.Close()
		tools, _, err := a.Tools(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		info := a.Info()
		checkSyntax(t, codegen.Server{Name: "api", Title: info.Title, Description: info.Description, Tools: tools})
	})
}
