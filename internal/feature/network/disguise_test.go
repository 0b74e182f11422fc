package network_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/network"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// A rule with paths allows a path if each program behind it reads one that the rule allows.
func TestPathsAreReadAsServersDecodeThem(t *testing.T) {
	rules := []network.Rule{{Host: "api.example.com", Paths: []string{"/users/*/profile", "/docs/*", "/projects/my%2Fgroup/*/issues",
		"/m;v=1/x", "/*/last"}},
		{Host: "any.example.com"}, {Host: "slash.example.com", Paths: []string{"/*"}},
		{Host: "pair.example.com", Paths: []string{"/a/*/read"}, Addresses: []string{"127.0.0.1"}}}
	c := newClient(t, network.Config{Rules: newRules(t, rules...), Lookup: resolveTo("127.0.0.1")})
	for at, allowed := range map[string]bool{
		"api.example.com/users/1/profile":                 true,
		"api.example.com/users/a%2fb/profile":             true, // a star is also several segments
		"api.example.com/users/a%20b/profile":             true,
		"api.example.com/users/caf%C3%A9/profile":         true,
		"api.example.com/docs/a;b/c%3f%23%00%252f;":       true,
		"api.example.com/projects/my%2Fgroup/7/issues":    true,
		"api.example.com/projects/my%252Fgroup/7/issues":  false,
		"api.example.com/projects/my/group/7/issues":      false,
		"api.example.com/m;v=1/x":                         true,
		"api.example.com/m/x":                             false,
		"api.example.com/users/1;x/profile":               false, // read as /users/1 by servers that end the path there
		"api.example.com/users/1%3bx/profile":             false,
		"api.example.com/users/1%3fx/profile":             false,
		"api.example.com/users/1%253fx/profile":           false,
		"api.example.com/users/1%2525253fx/profile":       false,
		"api.example.com/users/1%23/profile":              false,
		"api.example.com/users/1%00/profile":              false,
		"api.example.com/users/1%0d%0a/profile":           false,
		"api.example.com/admin%5c..%5cx/last":             false,
		"api.example.com/admin;/last":                     false,
		"any.example.com/users/1%3f%2f%5c;x/%253bprofile": true, // nothing to go around
		"slash.example.com/users/1%3f%2f;x/%253bprofile":  true,
	} {
		_, _, err := send(t, c, "get", map[string]any{"url": "https://" + at})
		f, ok := errors.AsType[*tool.Failure](err)
		if !ok || (f.Refused == "network:address") != allowed {
			t.Errorf("%s: %v, want allowed %v", at, err, allowed)
		}
	}
	// A path that the rule with the address does not allow is one of the rule for all hosts, which has none.
	c = newClient(t, network.Config{Rules: newRules(t, append(rules, network.Rule{Host: "*"})...), Lookup: resolveTo("127.0.0.1")})
	_, _, err := send(t, c, "get", map[string]any{"url": "https://pair.example.com/a/1%3f/read"})
	refusedBy(t, err, "address")
}

// Rails, Laravel and others read another method from a parameter or a field of a form.
func TestOtherMethodsInParametersAreRefused(t *testing.T) {
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) {})
	allowed.Methods = []string{"POST", "GET"}
	c := newClient(t, network.Config{Rules: newRules(t, allowed)})
	part := func(disposition string) string {
		return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\nDELETE\r\n--b--\r\n"
	}
	const form, multipart, jsonType = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "application/vnd.api+json"
	for _, c2 := range []struct {
		query, kind string
		body        any
		refused     bool
	}{
		{query: "?_method=DELETE", refused: true},
		{query: "?_METHOD=DELETE", refused: true},
		{query: "?a=1;_method=DELETE", refused: true},
		{query: "?%5fmethod=DELETE&x=%zz", refused: true},
		{query: "?_method%5b%5d=DELETE", refused: true},
		{query: "?%20.method=DELETE", refused: true},  // PHP
		{query: "?_HttpMethod=DELETE", refused: true}, // Salesforce
		{query: "?X-HTTP-Method-Override=DELETE", refused: true},
		{query: "?method=x&the_method=y&a=_method"},
		{kind: form, body: "a=1&_method=DELETE", refused: true},
		{kind: form, body: "%5Fmethod=DELETE", refused: true},
		{kind: form + ";charset=utf-8", body: "_method=DELETE", refused: true},
		{kind: "", body: "_method=DELETE", refused: true},
		{kind: form, body: "method=DELETE&a=_method"},
		{kind: "text/plain", body: "the _method=DELETE"},
		{kind: multipart, body: part(`name="_method"`), refused: true},
		{kind: multipart, body: part(`name=_method`), refused: true},
		{kind: multipart, body: part("\r\n\tNAME = '_method'"), refused: true},
		{kind: multipart, body: part(`name*=utf-8''%5Fmethod`), refused: true},
		{kind: multipart, body: part(`name*0="_me"; name*1="thod"`), refused: true},
		{kind: multipart, body: part(`name="file"; filename="_method"`)},
		{kind: multipart, body: part(`name="file"`) + `<input name="_method">`},
		{kind: jsonType, body: `{"a":1,"_method":"DELETE"}`, refused: true},
		{kind: jsonType, body: `{"a":{"_method":"DELETE"}}`},
		{kind: jsonType, body: `["_method"]`},
		{body: map[string]any{"_method": "DELETE"}, refused: true},
		{body: map[string]any{"method": "DELETE"}},
	} {
		args := map[string]any{"url": at + "/" + c2.query}
		if text, ok := c2.body.(string); ok {
			args["text"] = text
		} else if c2.body != nil {
			args["json"] = c2.body
		}
		if c2.kind != "" {
			args["headers"] = map[string]string{"content-type": c2.kind}
		}
		_, _, err := send(t, c, "post", args)
		if f, _ := errors.AsType[*tool.Failure](err); c2.refused != (f != nil && f.Refused == "network:allow" && strings.Contains(f.Message,
			"method")) {
			t.Errorf("%+v: %v", c2, err)
		}
		if text, ok := args["text"].(string); ok {
			delete(args, "text")
			args["base64"] = base64.StdEncoding.EncodeToString([]byte(text))
			if _, _, err := send(t, c, "post", args); c2.refused != (err != nil) {
				t.Errorf("%+v in base64: %v", c2, err)
			}
		}
	}
}
