package openapi_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
)

const head = "openapi: 3.0.3\ninfo: {title: T, version: '1'}\nservers: [{url: 'http://127.0.0.1:1'}]\n"

// bomb is a short YAML document that expands to a huge value.
var bomb = func() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return b.String()
}()

func TestInvalidDocumentErrors(t *testing.T) {
	for _, c := range []struct{ document, want string }{
		{"", "api.yaml is empty"},
		{"\xef\xbb\xbf  \n", "api.yaml is empty"},
		{"# only a comment\n", "api.yaml is empty"},
		{"just words", "api.yaml line 1 (#): expected an object with the keys openapi and paths, got a text"},
		{"[1, 2]", "expected an object with the keys openapi and paths, got a list"},
		{"{\"openapi\": \"3.0.0\",\n\"paths\": {,}}", "api.yaml line 2 is not valid JSON: invalid character ','"},
		{"{\"openapi\": \"3.0.0\"\n", "api.yaml line 2 is not valid JSON: unexpected EOF"},
		{"{} {}", "api.yaml line 1 is not valid JSON: something follows the end of the document"},
		{"a: [1\nb: 2", "api.yaml is not valid YAML: line 1"},
		{"a: \x00", "api.yaml is not valid YAML: control characters are not allowed"},
		{"? [a]\n: 1", "api.yaml line 1: a key must be a string"},
		{"a: &a [*a]", "api.yaml"},
		{bomb, "its aliases expand to too many values"},
		{strings.Repeat("[", 300) + strings.Repeat("]", 300), "expected an object"},
		{"a: " + strings.Repeat("[", 300) + strings.Repeat("]", 300), "it is nested too deeply"},
		{"<html><title>Sign in</title></html>", "expected an object with the keys openapi and paths, got a text"},
		{"\nswagger: '2.0'\npaths: {}", "api.yaml line 2 (#/swagger): Swagger 2.0 is not supported; expected OpenAPI 3.0 or 3.1 | " +
			"convert the document to OpenAPI 3"},
		{"info: {}\npaths: {}", "expected the key openapi with a version such as 3.1.0; this is not an OpenAPI document"},
		{"info: {}\nopenapi: 4.0.0", "api.yaml line 2 (#/openapi): OpenAPI 4.0.0 is not supported; expected 3.0 or 3.1"},
		{"openapi: 3.2.0", "OpenAPI 3.2.0 is not supported"},
		{"openapi: 3.0\nservers: [{url: 'http://x'}]", "(#/paths): expected an object of paths, got nothing"},
		{head + "paths: []", "api.yaml line 4 (#/paths): expected an object of paths, got a list"},
		{head + "paths: {}", "api.yaml line 4 (#/paths): no operation is included"},
		{head + "paths:\n  /x: 7", "no operation can be used: /x is omitted: api.yaml line 5 (#/paths/~1x): expected an object of " +
			"operations, got a number"},
		{head + "paths:\n  x: {get: {}}", "x is omitted: api.yaml line 5 (#/paths/x): expected a path that begins with /"},
		{head + "paths:\n  /x:\n    get: no", "GET /x is omitted: api.yaml line 6 (#/paths/~1x/get): expected an operation, got a text"},
		{head + "paths:\n  /x:\n    get:\n      parameters: {}",
			"line 7 (#/paths/~1x/get/parameters): expected a list of parameters, got an object"},
		{head + "paths:\n  /x:\n    get:\n      parameters:\n      - {in: query}",
			"line 8 (#/paths/~1x/get/parameters/0): expected a parameter with a name"},
		{head + "paths:\n  /x:\n    get:\n      parameters:\n      - name: a\n        in: body",
			"line 9 (#/paths/~1x/get/parameters/0/in): expected path, query, header or cookie, got \"body\""},
		{head + "paths:\n  /x:\n    get:\n      parameters:\n      - {name: a, in: header, style: form}",
			"expected one of simple for a parameter in header, got \"form\""},
		{head + "paths:\n  /x:\n    get:\n      parameters:\n      - {name: a, in: query, content: {}}",
			"content): expected one media type, got 0"},
		{head + "paths:\n  /x:\n    get:\n      parameters:\n      - {name: a b, in: header}", `name): "a b" is not a valid header name`},
		{head + "paths:\n  /x:\n    get:\n      parameters: [7]", "expected a parameter, got a number"},
		{head + "paths:\n  /x/{}: {get: {}}", "has a parameter without a name"},
		{head + "paths:\n  /x:\n    post: {requestBody: 7}", "expected a request body, got a number"},
		{head + "paths:\n  /x:\n    post: {requestBody: {content: {multipart/form-data: {encoding: {a: {style: odd}}}}}}",
			"/encoding/a): expected one of form, spaceDelimited, pipeDelimited, deepObject, got \"odd\""},
		{head + "paths:\n  /x:\n    get:\n      parameters:\n      - $ref: '#/components/parameters/a'",
			"line 8 (#/paths/~1x/get/parameters/0): $ref \"#/components/parameters/a\" points to nothing"},
		{head + "paths:\n  /x: {$ref: '#/paths/~1y'}\n  /y: {$ref: '#/paths/~1x'}", "the references form a cycle"},
		{head + "paths:\n  /x: {$ref: '#anchor'}", "is not supported: expected FILE#/path/to/it"},
		{head + "paths:\n  /x: {$ref: 'http://other.example/x.yaml'}",
			"refers to another host: a document may refer only to files in its directory"},
		{head + "paths:\n  /x: {$ref: '../x.yaml'}", "refers to a file outside the directory of the document"},
		{head + "paths:\n  /x: {$ref: '/etc/passwd'}", "refers to a file outside the directory of the document"},
		{head + "paths:\n  /x: {$ref: 'none.yaml#/a'}", "cannot be resolved: the OpenAPI document none.yaml does not exist"},
		{"openapi: 3.1.0\npaths: {}", `the server "/" has no usable URL: it must begin with http:// or https:// and a host | set url of ` +
			`the server`},
		{"openapi: 3.1.0\nservers:\n- url: https://{region}.example\n",
			`line 3 (#/servers/0): the variable "region" of the server has no value | set it under variables`},
		{"openapi: 3.1.0\nservers: [{url: ftp://x.example}]", `the server "ftp://x.example" has no usable URL`},
		{"openapi: 3.1.0\nservers: [{url: 'https://me:pw@x.example'}]", `has no usable URL`},
	} {
		_, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: writeFile(t, t.TempDir(), "api.yaml",
			c.document)}})
		if err == nil || !strings.Contains(errorText(err), c.want) || !strings.HasPrefix(errorText(err),
			"has a document that cannot be used: ") || strings.ContainsAny(fault.Message(err), "\n\x1b") {
			t.Errorf("%.100q: %v\nwant %s", c.document, err, c.want)
		}
	}
}

func TestInvalidOperationIsSkipped(t *testing.T) {
	a := open(t, openapi.Config{}, head+"paths:\n  /good: {get: {}}\n  /bad: {get: {parameters: [7]}}\n  x-extension: 7\n")
	tools, notes, err := a.Tools(t.Context(), "api")
	if err != nil || len(tools) != 1 || tools[0].Tool != "get_good" || len(notes) != 1 || !strings.Contains(notes[0],
		"GET /bad is omitted: api.yaml line 6") {
		t.Errorf("%v, %q, %v", tools, notes, err)
	}
}

func TestDocumentOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "paths/pets.yaml", "get:\n  operationId: listPets\n  parameters: [{$ref: '../shared/params.json#/limit'}]\n  "+
		"responses: {'200': {content: {application/json: {schema: {$ref: ../shared/pet.yaml}}}}}\n")
	writeFile(t, dir, "shared/params.json", `{"limit": {"name": "limit", "in": "query", "schema": {"$ref": "#/a%20type/x~1y"}}, "a `+
		`type": {"x/y": {"type": "integer"}}}`)
	writeFile(t, dir, "shared/pet.yaml", "type: object\nproperties: {name: {type: string}, friend: {$ref: pet.yaml}}\n")
	path := writeFile(t, dir, "api.yaml", head+"paths: {/pets: {$ref: paths/pets.yaml}}\n")
	a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path}})
	if err != nil {
		t.Fatal(err)
	}
	d := definitions(t, a)["listPets"]
	if want := `{"type":"object","properties":{"limit":{"type":"integer"}},"additionalProperties":false}`; string(d.Input) != want {
		t.Errorf("%s; want %s", d.Input, want)
	}
	if want := `{"properties":{"friend":{"type":"object"},"name":{"type":"string"}},"type":"object"}`; string(d.Output) != want {
		t.Errorf("%s; want %s", d.Output, want)
	}
}

func TestLinkOutOfDirectoryIsNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	secret := writeFile(t, outside, "secret.yaml", "get: {operationId: stolen}\n")
	if err := os.Symlink(secret, filepath.Join(dir, "linked.yaml")); err != nil {
		t.Skip(err)
	}
	path := writeFile(t, dir, "api.yaml", head+"paths: {/x: {$ref: linked.yaml}, /y: {get: {operationId: own}}}\n")
	own := filepath.Join(outside, "main.yaml")
	if err := os.Symlink(path, own); err != nil { // a link in the configured path is followed
		t.Fatal(err)
	}
	for _, path := range []string{path, own} {
		a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path}})
		if err != nil {
			t.Fatal(err)
		}
		if tools := definitions(t, a); len(tools) != 1 || tools["own"].Tool == "" {
			t.Errorf("%v", tools)
		}
	}
}

func TestDownloadedDocumentIsCached(t *testing.T) {
	var down atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			w.WriteHeader(502)
		case r.URL.Path == "/v1/api.yaml" && r.URL.RawQuery == "key=sesame":
			fmt.Fprint(w, "openapi: 3.1.0\nservers: [{url: /base}]\npaths: {/x: {$ref: 'paths/x.yaml'}}\n")
		case r.URL.Path == "/v1/paths/x.yaml":
			fmt.Fprint(w, "get: {operationId: get}\n")
		case r.URL.Path == "/base/x":
			response(w, "text/plain", "called")
		default:
			w.WriteHeader(404)
		}
	}))
	defer s.Close()
	cfg := openapi.Config{Source: openapi.Source{Document: s.URL + "/v1/api.yaml?key=sesame"},
		CacheDir: filepath.Join(t.TempDir(), "documents")}
	for range 2 {
		a, err := openapi.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if tools := definitions(t, a); tools["get"].Tool != "get" {
			t.Errorf("%v", tools)
		}
		if !down.Load() {
			wantResult(t, a, "get", `{}`, `"called"`)
		}
		down.Store(true)
	}
	cfg.CacheDir = ""
	_, err := openapi.Open(t.Context(), cfg)
	if want := "the OpenAPI document " + s.URL + "/v1/api.yaml cannot be downloaded: the server answered 502 Bad Gateway"; err == nil ||
		!strings.Contains(errorText(err), want) || strings.Contains(errorText(err), "sesame") {
		t.Error(err)
	}
	s.Close()
	if _, err = openapi.Open(t.Context(), cfg); err == nil || !strings.Contains(errorText(err), "connection refused") ||
		strings.Contains(errorText(err), "sesame") {
		t.Error(err)
	}
}

func TestSecretInDocumentURLIsRedacted(t *testing.T) {
	var log bytes.Buffer
	dir := t.TempDir()
	answer := "openapi: 3.1.0\npaths: {/x: {get: {operationId: get}}}\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answer) }))
	cfg := openapi.Config{Source: openapi.Source{Document: s.URL + "/${T}/api.yaml?key=${T}"}, CacheDir: dir,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Resolve: func(_ context.Context, _, value string) (string, error) {
			return strings.ReplaceAll(value, "${T}", "sesame"), nil
		}}
	if _, err := openapi.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	answer = "[]"
	if _, err := openapi.Open(t.Context(), cfg); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Error(err)
	}
	s.Close()
	if _, err := openapi.Open(t.Context(), cfg); err != nil { // the cached copy is the last valid document
		t.Error(err)
	}
	cfg.CacheDir = ""
	if _, err := openapi.Open(t.Context(), cfg); err == nil || strings.Contains(errorText(err), "sesame") {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "the last copy is used") || strings.Contains(log.String(), "sesame") {
		t.Error(log.String())
	}
}

func TestDownloadedDocumentCannotRedirectCredentials(t *testing.T) {
	document := "openapi: 3.1.0\nservers: [{url: 'https://api.example/v1'}]\npaths: {/x: {get: {operationId: get}}}\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, document) }))
	defer s.Close()
	src := openapi.Source{Document: s.URL + "/api.yaml"}
	_, err := openapi.Open(t.Context(), openapi.Config{Source: src})
	if err == nil || !strings.Contains(errorText(err), "names a server at api.example, where credentials would go | if that is correct, "+
		"set url of the server to https://api.example/v1") {
		t.Error(err)
	}
	src.Hosts = []string{"api.example"}
	if _, err := openapi.Open(t.Context(), openapi.Config{Source: src}); err != nil {
		t.Error(err)
	}
	src.Auth.Client = &openapi.ClientCredentials{ID: "x", Secret: "y"}
	document += "components: {securitySchemes: {o: {type: oauth2, flows: {clientCredentials: {tokenUrl: 'https://id.example/token'}}}}}\n"
	if _, err := openapi.Open(t.Context(), openapi.Config{Source: src}); err == nil || !strings.Contains(errorText(err),
		"has tokens asked for at another host, id.example") {
		t.Error(err)
	}
}

func TestServerSelection(t *testing.T) {
	var host string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { host = r.URL.Path }))
	defer s.Close()
	document := "openapi: 3.1.0\nservers:\n- {url: 'http://127.0.0.1:1', description: Production}\n- url: " + s.URL +
		"/{region}/v{n}\n  description: Test\n  variables: {region: {default: us, enum: [us, eu]}, n: {default: '2'}}\npaths: {/x: {get: " +
		"{operationId: get}}}\n"
	for want, src := range map[string]openapi.Source{
		"/us/v2/x": {Server: "test"},
		"/eu/v2/x": {Server: s.URL + "/{region}/v{n}", Variables: map[string]string{"region": "eu"}},
		"/other/x": {URL: s.URL + "/other/"},
	} {
		wantResult(t, open(t, openapi.Config{Source: src}, document), "get", `{}`, "null")
		if host != want {
			t.Errorf("called %s; want %s", host, want)
		}
	}
	path := writeFile(t, t.TempDir(), "api.yaml", document)
	for want, src := range map[string]openapi.Source{
		`there is no server "Staging"; it has http://127.0.0.1:1, `: {Document: path, Server: "Staging"},
		`the variable "region" is "mars"; allowed are us, eu`: {Document: path, Server: "Test",
			Variables: map[string]string{"region": "mars"}},
		"names 0 kinds of key; configure one of them":    {Document: path, Auth: openapi.Auth{Key: &openapi.APIKey{Value: "x"}}},
		"the document does not say where a token is had": {Document: path, Auth: openapi.Auth{Client: &openapi.ClientCredentials{}}},
	} {
		if _, err := openapi.Open(t.Context(), openapi.Config{Source: src}); err == nil || !strings.Contains(errorText(err), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestOperationSelection(t *testing.T) {
	document := head + `paths:
  /a:
    get: {operationId: a/list, tags: [a]}
    post: {operationId: a/create, tags: [a, write]}
  /b: {get: {operationId: b/list-all, tags: [b]}, delete: {}}
`
	for _, c := range []struct {
		src  openapi.Source
		want string
	}{
		{openapi.Source{}, "a_create a_list b_list_all delete_b"},
		{openapi.Source{Include: openapi.Filter{Tags: []string{"a"}}}, "a_create a_list"},
		{openapi.Source{Include: openapi.Filter{Tags: []string{"a", "b"}, Methods: []string{"get"}}}, "a_list b_list_all"},
		{openapi.Source{Include: openapi.Filter{Operations: []string{"*/list*"}}, Exclude: openapi.Filter{Operations: []string{"b*all"}}},
			"a_list"},
		{openapi.Source{Exclude: openapi.Filter{Methods: []string{"GET"}}}, "a_create delete_b"},
	} {
		a := open(t, openapi.Config{Source: c.src}, document)
		tools, _, _ := a.Tools(t.Context(), "api")
		var names []string
		for _, d := range tools {
			names = append(names, d.Tool)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s; want %s", c.src, got, c.want)
		}
	}
	path := writeFile(t, t.TempDir(), "api.yaml", document)
	if _, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path,
		Include: openapi.Filter{Tags: []string{"none"}}}}); err == nil ||
		!strings.Contains(errorText(err), "no operation is included | check include") {
		t.Error(err)
	}
}

func TestToolNamesAreValidAndStable(t *testing.T) {
	a := open(t, openapi.Config{}, head+`paths:
  /repos/{owner}/{repo}: {get: {}, delete: {operationId: "from"}}
  /same: {get: {operationId: list-it}, put: {operationId: list_it}, post: {operationId: "list it"}}
  /twice: {get: {operationId: list-it}}
  /odd: {get: {operationId: "größe:📈"}, put: {operationId: "7 days"}, post: {operationId: "///"}, delete: {operationId: resources}}
`)
	var names []string
	tools, _, _ := a.Tools(t.Context(), "api")
	for _, d := range tools {
		names = append(names, d.Tool+" "+strings.Split(d.Description, "\n")[0])
	}
	want := `from_ DELETE /repos/{owner}/{repo}
get_repos_owner_repo GET /repos/{owner}/{repo}
get_twice GET /twice
größe__ GET /odd
list_it GET /same
list_it_2 PUT /same
list_it_3 POST /same
resources_ DELETE /odd
t7_days PUT /odd
t_ POST /odd`
	if got := strings.Join(names, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSchemasAreConvertedToDraft202012(t *testing.T) {
	document := head + `paths:
  /x:
    post:
      parameters: [{name: page, in: query, description: "Which\u0007 one", schema: {type: integer, default: 1, minimum: 0, exclusiveMinimum: true}}]
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}}
      responses: {'201': {content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}}}
components:
  schemas:
    Node:
      type: object
      required: [id, name, secret]
      discriminator: {propertyName: kind}
      additionalProperties: false
      properties:
        id: {type: integer, readOnly: true}
        secret: {type: string, writeOnly: true}
        name: {type: string, nullable: true, enum: [a, b, a], example: x, x-extra: 1, description: The name}
        next: {$ref: '#/components/schemas/Node'}
        maybe: {nullable: true, allOf: [{$ref: '#/components/schemas/Part'}]}
        either: {oneOf: [{type: string}, {type: object}]}
        bad: {type: any, minLength: -1, enum: [], required: true, pattern: '(?=x)', format: 7, properties: [], items: 7, multipleOf: 0}
    Part: {type: object, additionalProperties: false, properties: {x: {type: number, maximum: 1.50}}}
`
	d := definitions(t, open(t, openapi.Config{}, document))["post_x"]
	in := `{"type":"object","properties":{"page":{"description":"Which one (default ` +
		`1)","exclusiveMinimum":0,"type":"integer"},"body":{"additionalProperties":false,"properties":{` +
		`"bad":{"items":true},"either":{"anyOf":[{"type":"string"},{"type":"object"}]},"maybe":{"anyOf":[{"allOf":[{"properties":{"x":{"maximum":1.50,"type":"number"}},"type":"object"}]},{"type":"null"}]},` +
		`"name":{"description":"The ` +
		`name","enum":["a","b",null],"type":["string","null"]},"next":{"type":"object"},"secret":{"type":"string"}},"required":["name","secret"],"type":"object"}},"required":["body"],"additionalProperties":false}`
	if string(d.Input) != in {
		t.Errorf("input\n%s\nwant\n%s", d.Input, in)
	}
	if out := string(d.Output); strings.Contains(out, "secret\":") || strings.Contains(out, "description") || !strings.Contains(out,
		`"id":{"type":"integer"}`) {
		t.Error(out)
	}
}

func TestOutputSchema(t *testing.T) {
	for responses, want := range map[string]string{
		`'204': {}`:                                                      `{"type":"null"}`,
		`'200': {content: {text/plain: {}}}`:                             `{"type":"string"}`,
		`'200': {content: {image/png: {}}}`:                              ``,
		`'200': {content: {application/json: {}}}`:                       ``,
		`'404': {content: {application/json: {schema: {type: object}}}}`: ``,
		`'200': {content: {application/json: {schema: {type: array, items: {type: integer}}}}}, '204': {}`: `{"anyOf":[{"items":{"type":"integer"},"type":"array"},{"type":"null"}]}`,
		`'2XX': {content: {application/hal+json; profile=x: {schema: {type: boolean}}}}`:                   `{"type":"boolean"}`,
		`'200': {$ref: '#/none'}`: "left out",
	} {
		path := writeFile(t, t.TempDir(), "api.yaml", head+"paths: {/x: {get: {operationId: get, responses: {"+responses+
			"}}}, /y: {get: {}}}\n")
		a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path}})
		if err != nil {
			t.Fatal(err)
		}
		d, ok := definitions(t, a)["get"]
		if got := string(d.Output); got != want && (ok || want != "left out") {
			t.Errorf("%s: %s; want %s", responses, got, want)
		}
	}
}

func TestLargeSchemaIsTruncated(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + "paths: {/x: {post: {operationId: post, requestBody: {content: {application/json: {schema: {$ref: " +
		"'#/components/schemas/L0'}}}}}}}\ncomponents:\n  schemas:\n")
	for i := range 20 { // 10^20 fields
		fmt.Fprintf(&b, "    L%d: {type: object, properties: {", i)
		for j := range 10 {
			fmt.Fprintf(&b, "p%d: {$ref: '#/components/schemas/L%d'}, ", j, i+1)
		}
		b.WriteString("}}\n")
	}
	b.WriteString("    L20: {type: string}\n")
	d := definitions(t, open(t, openapi.Config{}, b.String()))["post"]
	if n := len(d.Input); n > 32<<10 || !strings.Contains(string(d.Input), `"p9":{"type":"object"}`) {
		t.Errorf("%d bytes: %.500s", n, d.Input)
	}
}

func TestDocumentNameWithSpecialCharacter(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "part#2 %41.yaml", "x: {operationId: get, parameters: [{$ref: '#/p'}]}\np: {name: q, in: query}\n")
	path := writeFile(t, dir, "api#1.yaml", at("http://127.0.0.1:1",
		"  /x: {get: {$ref: 'part%232%20%2541.yaml#/x'}}\n  /y: {$ref: '#/components/pathItems/a~1%23'}\n"+
			"components: {pathItems: {'a/#': {get: {operationId: y}}}}\n"))
	a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path}})
	if err != nil {
		t.Fatal(errorText(err))
	}
	defer a.Close()
	if all := definitions(t, a); len(all) != 2 {
		t.Errorf("%v", all)
	}
}
