package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// FuzzDocument checks that no document and no arguments cause a panic, and that every definition is
// valid.
func FuzzDocument(f *testing.F) {
	styles, err := os.ReadFile(filepath.Join("testdata", "styles.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(styles, `{"body":{"a":1},"s":["x"]}`)
	f.Add([]byte(head+"paths: {/x/{a}: {get: {parameters: [{name: a, in: path, style: matrix}]}}}"), `{"a":{"b":[null,{}]}}`)
	f.Add([]byte(head+"paths: {/x: {post: {requestBody: {content: {multipart/form-data: {schema: {properties: {a: {format: "+
		"binary}}}}}}}}}"), `{"body":{"a":{"content":"AA=="}}}`)
	f.Add([]byte(`{"openapi":"3.1.0","servers":[{"url":"http://x"}],"paths":{"/":{"get":{"parameters":[{"$ref":"#/paths/~1/get/parameters/0"}],"responses":{"200":{"content":{"a/b+json":{"schema":{"$ref":"#"}}}}}}}}}`), `{}`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, document []byte, args string) {
		path := filepath.Join(t.TempDir(), "api.yaml")
		if err := os.WriteFile(path, document, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path, URL: s.URL}})
		if err != nil {
			if errorText(err) == "" {
				t.Error("an error without a message")
			}
			return
		}
		defer a.Close()
		tools, _, err := a.Tools(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tools {
			if _, err := json.Marshal(d); err != nil {
				t.Fatalf("%s: %v", d.Tool, err)
			}
			unknown := map[string]any{"no such argument": 7}
			if string(d.Input) != "true" && len(schema.Compile(d.Input).Check(unknown)) == 0 {
				t.Fatalf("%s cannot be checked: %s", d.Tool, d.Input)
			}
			_, _ = a.Call(t.Context(), tool.Call{Ref: d.Ref, Args: json.RawMessage(args)})
		}
	})
}
