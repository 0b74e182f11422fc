package openapi_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
)

// styles returns an API with a parameter of every style, which records its requests.
func styles(t *testing.T) (*openapi.API, func() (*http.Request, string)) {
	t.Helper()
	var last *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r
		body, _ = io.ReadAll(r.Body)
	}))
	t.Cleanup(s.Close)
	a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{
		Document: filepath.Join("testdata", "styles.yaml"), URL: s.URL + "/v1/", Headers: map[string]string{"x-api-version": "7"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, func() (*http.Request, string) { return last, string(body) }
}

// The values are from the table "Style Values" of the specification.
func TestParameterStyles(t *testing.T) {
	a, last := styles(t)
	const list, object = `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`
	for _, c := range []struct{ name, args, want string }{
		{"pathSimple", `{"s":"blue","a":[1,2],"o":` + object + `,"oe":` + object + `}`,
			"/v1/path/blue/1,2/R,100,G,200,B,150/R=100,G=200,B=150"},
		{"pathSimple", `{"s":"a/b?c#d%20&é","a":[1],"o":{"x":"y,z"},"oe":{"x":1}}`, "/v1/path/a%2Fb%3Fc%23d%2520%26%C3%A9/1/x,y%2Cz/x=1"},
		{"pathLabel", `{"s":"blue","a":` + list + `,"ae":` + list + `,"o":` + object + `,"oe":` + object + `}`,
			"/v1/label/.blue/.blue,black,brown/.blue.black.brown/.R,100,G,200,B,150/.R=100.G=200.B=150"},
		{"pathMatrix", `{"s":"blue","e":"","a":` + list + `,"ae":` + list + `,"o":` + object + `,"oe":` + object + `}`,
			"/v1/matrix/;s=blue/;e/;a=blue,black,brown/;ae=blue;ae=black;ae=brown/;o=R,100,G,200,B,150/;R=100;G=200;B=150"},
		{"pathOdd", `{"s":"x","t":"y"}`, "/v1/a%20b/x.y/%C3%BC"},
		{"fragment", `{"id":"a#b"}`, "/v1/fragment/a%23b"},
		{"fixed", `{"what":"a&b?#","q":1}`, "/v1/fixed?action=list&what=a%26b%3F%23&q=1"},
		{"query", `{}`, "/v1/query"},
		{"query", `{"s":"a b&c=d+é/","n":1.50,"b":false}`, "/v1/query?s=a%20b%26c%3Dd%2B%C3%A9%2F&n=1.50&b=false"},
		{"query", `{"s":"","form":[],"formObject":{},"n":12345678901234567890}`, "/v1/query?s=&n=12345678901234567890"},
		{"query", `{"form":` + list + `,"formNot":` + list + `}`, "/v1/query?form=blue&form=black&form=brown&formNot=blue,black,brown"},
		{"query", `{"formObject":` + object + `,"formObjectNot":` + object + `}`,
			"/v1/query?R=100&G=200&B=150&formObjectNot=R,100,G,200,B,150"},
		{"query", `{"space":` + list + `,"spaceObject":` + object + `,"spaceAll":[1,2]}`,
			"/v1/query?space=blue%20black%20brown&spaceObject=R%20100%20G%20200%20B%20150&spaceAll=1&spaceAll=2"},
		{"query", `{"pipe":` + list + `,"pipeObject":` + object + `}`,
			"/v1/query?pipe=blue%7Cblack%7Cbrown&pipeObject=R%7C100%7CG%7C200%7CB%7C150"},
		{"query", `{"deep":{"R":100,"in":{"z":0,"side":[1,2],"no":null},"A":1}}`,
			"/v1/query?deep%5BR%5D=100&deep%5Bin%5D%5Bz%5D=0&deep%5Bin%5D%5Bside%5D=1&deep%5Bin%5D%5Bside%5D=2&deep%5BA%5D=1"},
		{"query", `{"raw":"a/b?c=d:e,f&g#h i%20j%zz"}`, "/v1/query?raw=a/b?c=d:e,f%26g%23h%20i%20j%25zz"},
		{"query", `{"json":{"a":[1]},"text":"x y"}`, "/v1/query?json=%7B%22a%22%3A%5B1%5D%7D&text=x%20y"},
		{"query", `{"odd[name]":"x","form":[{"a":1},null,true]}`, "/v1/query?form=%7B%22a%22%3A1%7D&form=&form=true&odd%5Bname%5D=x"},
	} {
		wantResult(t, a, c.name, c.args, "null")
		if r, _ := last(); r.RequestURI != c.want {
			t.Errorf("%s(%s) requests\n%s; want\n%s", c.name, c.args, r.RequestURI, c.want)
		}
	}
}

func TestHeadersAndCookies(t *testing.T) {
	a, last := styles(t)
	wantResult(t, a, "headers", `{"X-S":"é b","X-A":[1,2],"X-O":{"a":1,"b":2},"X-OE":{"a":1,"b":2},"X-J":{"a":[1]},"Accept":"x","Content-Type":"x","authorization":"x","host":"x","X-Api-Version":"x"}`, "null")
	r, _ := last()
	for name, want := range map[string]string{
		"X-S": "é b", "X-A": "1,2", "X-O": "a,1,b,2", "X-OE": "a=1,b=2", "X-J": `{"a":[1]}`, "Accept": "*/*;q=0.1", "Content-Type": "",
		"Authorization": "",
		"X-Api-Version": "7", "User-Agent": "sandpiper",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
	if strings.Contains(r.Host, "x") {
		t.Error(r.Host)
	}
	wantFailure(t, a, "headers", `{"X-S":"a\r\nEvil: 1"}`, "argument X-S: a header must not contain line breaks")
	wantResult(t, a, "cookies", `{"s":"a;b=c","a":[1,2],"an":[1,2],"o":{"x":1,"y":2},"on":{"x":1}}`, "null")
	if r, _ := last(); r.Header.Get("Cookie") != "s=a%3Bb%3Dc; a=1; a=2; an=1,2; x=1; y=2; on=x,1" {
		t.Error(r.Header.Get("Cookie"))
	}
}

func TestParametersWithEqualNames(t *testing.T) {
	a, last := styles(t)
	wantResult(t, a, "clash", `{"id":"p","body":"b","id_query":"q","id_query_query":"qq","id_header":"h","id_cookie":"c","request_body":{"x":1}}`, "null")
	r, body := last()
	if got := fmt.Sprint(r.RequestURI, r.Header.Get("id"), r.Header.Get("Cookie"),
		body); got != `/v1/clash/p/b?id=q&id_query=qqhid=c{"x":1}` {
		t.Error(got)
	}
	about := definitions(t, a)["clash"].Description
	for _, want := range []string{"Argument id_query is the parameter id in the query.",
		"Argument id_header is the parameter id in the header.",
		"Argument request_body is the request body, sent as application/json."} {
		if !strings.Contains(about, want) {
			t.Errorf("%s is not in %s", want, about)
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	a, _ := styles(t)
	for _, c := range []struct{ name, args, want string }{
		{"pathOdd", `{"s":"x"}`, "argument t is missing"},
		{"pathOdd", `{"s":"","t":"x"}`, "argument s is part of the path and must not be empty"},
		{"pathSimple", `{"s":"..","a":[1],"o":{"x":1},"oe":{"x":1}}`, `a path with the segment ".."`},
		{"pathSimple", `{"s":"x/../y","a":[1],"o":{"x":1},"oe":{"x":1}}`, `a path with the segment ".."`},
		{"pathSimple", `{"s":"..\\y","a":[1],"o":{"x":1},"oe":{"x":1}}`, `a path with the segment ".."`},
		{"pathSimple", `{"s":"..;a=b/y","a":[1],"o":{"x":1},"oe":{"x":1}}`, `a path with the segment ".."`},
		{"pathSimple", `{"s":"%2e%2e/y","a":[1],"o":{"x":1},"oe":{"x":1}}`, `a path with the segment ".."`},
		{"pathSimple", `{"s":"..\u0000","a":[1],"o":{"x":1},"oe":{"x":1}}`, `a path with the segment ".."`},
		{"pathLabel", `{"s":".","a":[1],"ae":[1],"o":{"x":1},"oe":{"x":1}}`, `a path with the segment ".."`},
		{"text", `{}`, "argument body is missing"},
		{"text", `{"body":7}`, "argument body: expected a string of type text/csv, got a number"},
		{"form", `{"body":[1]}`, "argument body: expected an object of fields, got a list"},
		{"multipart", `{"body":{"one":"no base64!"}}`, "argument body.one: expected bytes as base64 text | in Python: base64.b64encode"},
		{"bytes", `{"body":{"a":1}}`, "argument body: expected bytes as base64 text"},
		{"nothing", `{}`, `no longer has an operation "nothing"`},
		{"query", `[1]`, "the arguments are not a JSON object"},
	} {
		wantFailure(t, a, c.name, c.args, c.want)
	}
}

func TestBodies(t *testing.T) {
	a, last := styles(t)
	bytes64 := base64.StdEncoding.EncodeToString([]byte{0, 255, 1})
	for _, c := range []struct{ name, args, mime, want string }{
		{"json", `{"body":{"s":"<é>","n":1.0,"in":[{"z":1,"a":2}]}}`, "application/vnd.test+json",
			`{"s":"<é>","n":1.0,"in":[{"z":1,"a":2}]}`},
		{"json", `{}`, "", ""},
		{"form", `{"body":{"name":"a b&c","tags":["x","y"],"ids":[1,2],"where":{"a":[1]},"deep":{"a":{"b":1}}}}`,
			"application/x-www-form-urlencoded",
			"name=a%20b%26c&tags=x&tags=y&ids=1,2&where=%7B%22a%22%3A%5B1%5D%7D&deep%5Ba%5D%5Bb%5D=1"},
		{"text", `{"body":"a,b\n"}`, "text/csv", "a,b\n"},
		{"xml", `{"body":"<a/>"}`, "application/xml", "<a/>"},
		{"bytes", `{"body":"` + bytes64 + `"}`, "application/octet-stream", "\x00\xff\x01"},
	} {
		wantResult(t, a, c.name, c.args, "null")
		if r, body := last(); body != c.want || r.Header.Get("Content-Type") != c.mime {
			t.Errorf("%s sends %s\n%s\nwant %s", c.name, r.Header.Get("Content-Type"), body, c.want)
		}
	}
}

func TestMultipartFiles(t *testing.T) {
	a, last := styles(t)
	file := base64.StdEncoding.EncodeToString([]byte("\x89PNG"))
	wantResult(t, a, "multipart", `{"body":{"name":"n","meta":{"a":1},"tags":["x","y"],"list":["x","y"],"one":"`+file+`",
		"many":[{"content":"`+file+`","filename":"a\"b\r\n.bin","content_type":"text/x\r\nEvil: 1"},"`+file+`"]}}`, "null")
	r, body := last()
	want := `form-data; name="name"||n
form-data; name="meta"|application/json|{"a":1}
form-data; name="tags"||x
form-data; name="tags"||y
form-data; name="list"|application/json|["x","y"]
form-data; name="one"; filename="one"|image/png|` + "\x89PNG" + `
form-data; name="many"; filename="a%22b%0D%0A.bin"|text/xEvil: 1|` + "\x89PNG" + `
form-data; name="many"; filename="many"|application/octet-stream|` + "\x89PNG" + `
`
	if got := parts(t, r, body); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	in := string(definitions(t, a)["multipart"].Input)
	if !strings.Contains(in, `"one":{"anyOf":[{"contentEncoding":"base64"`) || !strings.Contains(in, `"filename":{"type":"string"}`) {
		t.Error(in)
	}
}

// parts returns one line per part of a multipart body.
func parts(t *testing.T, r *http.Request, body string) string {
	t.Helper()
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for all := multipart.NewReader(strings.NewReader(body), params["boundary"]); ; {
		p, err := all.NextRawPart()
		if err != nil {
			return got.String()
		}
		data, _ := io.ReadAll(p)
		fmt.Fprintf(&got, "%s|%s|%s\n", p.Header.Get("Content-Disposition"), p.Header.Get("Content-Type"), data)
	}
}

func TestMultipartStyles(t *testing.T) {
	const args = `{"body":{"space":[1,2],"ids":["a,b",2],"all":[1,2],"pipe":[1,2],"deep":{"z":{"y":"a&b"},"a":[1,2]},"open":{"z":1,"a":2}}}`
	a, last := styles(t)
	wantResult(t, a, "styled", args, "null")
	r, body := last()
	want := strings.NewReplacer("#", `form-data; name="`).Replace(`#space"||1 2
#ids"||a,b,2
#all"||1
#all"||2
#pipe"||1|2
#deep[z][y]"||a&b
#deep[a]"||1
#deep[a]"||2
#z"||1
#a"||2
`)
	if got := parts(t, r, body); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	old := open(t, openapi.Config{Source: openapi.Source{URL: "http://" + r.Host}}, `
openapi: 3.0.3
info: {title: x, version: x}
paths: {/old: {post: {operationId: old, requestBody: {content: {multipart/form-data: {schema: {}, encoding: {ids: {explode: false}}}}}}}}
`)
	wantResult(t, old, "old", `{"body":{"ids":[1,2]}}`, "null")
	r, body = last()
	if got := parts(t, r, body); got != "form-data; name=\"ids\"||1\nform-data; name=\"ids\"||2\n" {
		t.Errorf("OpenAPI 3.0 has no styles in a multipart body: %s", got)
	}
}
