package openapi_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
)

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// shared returns a document of n operations that refer to one schema.
func shared(n int, schema string) string {
	return `{"openapi": "3.1.0", "info": {"title": "a", "version": "1"}, "servers": [{"url": "http://127.0.0.1:9"}], "components": ` +
		`{"schemas": {"s": ` + schema + `}}, "paths": {` +
		strings.TrimSuffix(lines(n, `"/p%[1]d": {"post": {"operationId": "o%[1]d", "requestBody": {"content": {"application/json": `+
			`{"schema": {"$ref": "#/components/schemas/s"}}}}, "responses": {"204": {"description": "ok"}}}},`), ",") + "}}"
}

func TestWorkGrowsWithTheDocument(t *testing.T) {
	list := func(n int, format string) string { return strings.TrimSuffix(lines(n, format), ",") }
	for name, document := range map[string]func(n int) string{
		"choices":    func(n int) string { return shared(n, `{"enum": [`+list(1000*n, `"choice %d",`)+`]}`) },
		"properties": func(n int) string { return shared(n, `{"properties": {`+list(600*n, `"p%d": {},`)+`}}`) },
		"required":   func(n int) string { return shared(n, `{"required": [`+list(1000*n, `"p%d",`)+`]}`) },
		"defaults":   func(n int) string { return shared(n, `{"default": [`+list(1000*n, `"p%d",`)+`]}`) },
		"keywords":   func(n int) string { return shared(n, `{`+list(20*n, `"x-%d": 1,`)+`}`) },
		"parts":      func(n int) string { return shared(n, `{"allOf": [`+list(600*n, `{"minimum": %d},`)+`]}`) },
		"aliases": func(n int) string {
			return "openapi: 3.1.0\ninfo: {title: a, version: '1'}\nservers: [{url: 'http://127.0.0.1:9'}]\nx-a: &a {" + lines(4*n,
				"k%d: 1, ") + "}\nx-b: [" + strings.Repeat("*a, ", n) + "]\npaths: {/a: {get: {responses: {'204': {description: ok}}}}}\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			var used []uint64
			for _, n := range []int{40, 80, 160} {
				path := writeFile(t, t.TempDir(), "api.yaml", document(n))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path}})
				if err == nil {
					_, _, err = a.Tools(t.Context(), "api")
					a.Close()
				}
				runtime.ReadMemStats(&after)
				if err != nil && name != "aliases" {
					t.Fatal(err)
				}
				used = append(used, after.TotalAlloc-before.TotalAlloc)
			}
			if used[2] > 4<<20 && used[2] > 3*used[1] {
				t.Errorf("160, 80 and 40 allocate %d, %d and %d bytes", used[2], used[1], used[0])
			}
		})
	}
}
