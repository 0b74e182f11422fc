package openapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// open opens an API whose document is in the test.
func open(t testing.TB, cfg openapi.Config, document string) *openapi.API {
	t.Helper()
	cfg.Document = writeFile(t, t.TempDir(), "api.yaml", document)
	a, err := openapi.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%s: %s", fault.Message(err), fault.Hint(err))
	}
	t.Cleanup(a.Close)
	return a
}

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// at returns a document of an API at url; paths is its YAML.
func at(url, paths string) string {
	return "openapi: 3.1.0\ninfo: {title: Test, version: '1'}\nservers: [{url: '" + url + "'}]\npaths:\n" + paths
}

func call(ctx context.Context, a *openapi.API, name, args string) (string, error) {
	res, err := a.Call(ctx, tool.Call{Ref: tool.Ref{Server: "api", Tool: name}, Args: json.RawMessage(args)})
	if err != nil {
		return "", err
	}
	if v, ok := res.Value(); ok {
		return string(v), nil
	}
	p := res.Parts[0]
	return fmt.Sprintf("%s %s %x", p.Kind, p.MIME, p.Data), nil
}

// wantResult calls an operation and checks its result.
func wantResult(t testing.TB, a *openapi.API, name, args, want string) {
	t.Helper()
	if got, err := call(t.Context(), a, name, args); err != nil || got != want {
		t.Errorf("%s(%s) gave %s, %v; want %s", name, args, got, err, want)
	}
}

// wantFailure calls an operation and checks its error.
func wantFailure(t testing.TB, a *openapi.API, name, args, want string) {
	t.Helper()
	got, err := call(t.Context(), a, name, args)
	if err == nil || !strings.Contains(errorText(err), want) {
		t.Errorf("%s(%s) gave %s, %v; want %s", name, args, got, err, want)
	}
}

// errorText returns the displayed text of an error.
func errorText(err error) string {
	if f, ok := errors.AsType[*tool.Failure](err); ok {
		return f.Message
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return fault.Message(err) + " | " + fault.Hint(err)
	}
	return err.Error()
}

func definitions(t testing.TB, a *openapi.API) map[string]tool.Definition {
	t.Helper()
	tools, _, err := a.Tools(t.Context(), "api")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]tool.Definition{}
	for _, d := range tools {
		all[d.Tool] = d
	}
	return all
}

func response(w http.ResponseWriter, mime, body string) {
	w.Header().Set("Content-Type", mime)
	w.Write([]byte(body))
}
