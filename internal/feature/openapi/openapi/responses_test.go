package openapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// newSingleAPI returns an API with one path, which h serves.
func newSingleAPI(t testing.TB, cfg openapi.Config, h http.HandlerFunc) *openapi.API {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return open(t, cfg, at(s.URL, `
  /x:
    get: {operationId: get, parameters: [{name: q, in: query}], responses: {'200': {headers: {Link: {}}, content: {application/json: {schema: {type: array}}}}}}
    post: {operationId: post, requestBody: {content: {application/json: {}}}}
    put: {operationId: put}
    head: {operationId: head}
`))
}

func TestResponseValues(t *testing.T) {
	a := newSingleAPI(t, openapi.Config{MaxResponse: 1000}, func(w http.ResponseWriter, r *http.Request) {
		mime, body, _ := strings.Cut(r.URL.Query().Get("q"), "|")
		response(w, mime, body)
	})
	for q, want := range map[string]string{
		`application/json|{\"a\": 1.0}`:               `{"a": 1.0}`,
		`application/json; charset=utf-8|[1, \"x\"]`:  `[1, "x"]`,
		`application/vnd.x+json|12345678901234567890`: "12345678901234567890",
		`application/json|`:                           "null",
		`application/json|` + strings.Repeat("[", 300) + strings.Repeat("]", 300): `"` + strings.Repeat("[", 300) + strings.Repeat("]",
			300) + `"`,
		`text/plain|42`:                `"42"`,
		`text/csv|true`:                `"true"`,
		`application/xml|<a/>`:         "\"\\u003ca/\\u003e\"",
		`image/png|abc`:                "image image/png 616263",
		`audio/wav|abc`:                "audio audio/wav 616263",
		`application/zip|abc`:          "blob application/zip 616263",
		`application/octet-stream|abc`: "blob application/octet-stream 616263",
	} {
		wantResult(t, a, "get", `{"q":"`+q+`"}`, want)
	}
	wantFailure(t, a, "get", `{"q":"application/json|<html>oops\u0007"}`, "sent invalid JSON: <html>oops")
	wantFailure(t, a, "get", `{"q":"text/plain|`+strings.Repeat("x", 1001)+`"}`, "response too large")
	wantResult(t, a, "head", `{}`, "null")
}

func TestObjectIsStructuredContent(t *testing.T) {
	a := newSingleAPI(t, openapi.Config{}, func(w http.ResponseWriter, _ *http.Request) { response(w, "application/json", `{"a":1}`) })
	res, err := a.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "get"}})
	if err != nil || string(res.Structured) != `{"a":1}` || len(res.Parts) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestErrorContainsAPIMessage(t *testing.T) {
	a := newSingleAPI(t, openapi.Config{}, func(w http.ResponseWriter, r *http.Request) {
		mime, body, _ := strings.Cut(r.URL.Query().Get("q"), "|")
		w.Header().Set("Content-Type", mime)
		if mime == "" {
			w.Header().Set("Retry-After", "4000")
			w.WriteHeader(429)
		} else if body == "moved" {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(304)
		} else {
			w.WriteHeader(400)
		}
		fmt.Fprint(w, body)
	})
	for q, want := range map[string]string{
		`application/json|{\"message\":\"no\",\"errors\":[{\"field\":\"a\"}]}`:     `answered 400 Bad Request: no [{"field":"a"}]`,
		`application/json|{\"error\":{\"code\":7,\"message\":\"bad\\u001b[31m\"}}`: "answered 400 Bad Request: bad",
		`application/problem+json|{\"title\":\"t\",\"detail\":\"d\"}`:              "answered 400 Bad Request: d",
		`application/json|{\"code\":7}`:                                            `answered 400 Bad Request: {"code":7}`,
		`application/json|\"words\"`:                                               "answered 400 Bad Request: words",
		`application/json|broken`:                                                  "answered 400 Bad Request: broken",
		`text/plain|some words`:                                                    "answered 400 Bad Request: some words",
		`text/html|<html><title>It is \n down</title><body>x`:                      "answered 400 Bad Request: It is down",
		`text/html|<p>x`:                        "answered 400 Bad Request",
		`application/octet-stream|\u0000\u0001`: "answered 400 Bad Request",
		`|slow`:                                 "answered 429 Too Many Requests: slow (retry in 1h6m40s)",
		`text/plain|moved`:                      "answered 304 Not Modified (a redirect, which is not followed for this method)",
	} {
		_, err := call(t.Context(), a, "get", `{"q":"`+q+`"}`)
		if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Message != want {
			t.Errorf("%s: %v; want %s", q, err, want)
		}
	}
	_, err := call(t.Context(), a, "get", `{"q":"text/plain|`+strings.Repeat("x", 5000)+`"}`)
	if len(errorText(err)) > 700 {
		t.Errorf("an error text of %d bytes", len(errorText(err)))
	}
}

func TestRedirectsStayOnTheHost(t *testing.T) {
	var went atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		went.Store(fmt.Sprint(r.Method, r.Header))
		response(w, "text/plain", "from elsewhere")
	}))
	defer other.Close()
	host := strings.TrimPrefix(other.URL, "http://")
	handler := func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query().Get("q")
		switch {
		case r.URL.Path == "/there" && r.Header.Get("X-Key") == "k":
			response(w, "text/plain", r.Method)
		case q == "round":
			http.Redirect(w, r, "/x?q=round", http.StatusFound)
		case q == "away" || r.Method == "PUT":
			http.Redirect(w, r, other.URL+"/file", http.StatusTemporaryRedirect)
		case r.Method == "POST" && r.URL.Path == "/x":
			http.Redirect(w, r, "/there", http.StatusSeeOther)
		default:
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}
	secret := openapi.Source{Headers: map[string]string{"X-Key": "k"}, Auth: openapi.Auth{Bearer: "b"}}
	a := newSingleAPI(t, openapi.Config{Source: secret}, handler)
	wantResult(t, a, "get", `{}`, `"GET"`)
	wantResult(t, a, "post", `{"body":1}`, `"GET"`) // as 303 requires
	wantFailure(t, a, "get", `{"q":"round"}`, "redirect loop")
	wantFailure(t, a, "get", `{"q":"away"}`, "redirects to another host, "+host+
		", which is not followed | to allow it for GET and HEAD, add the host to hosts")
	if went.Load() != nil {
		t.Error("the other host was called")
	}
	secret.Hosts = []string{host}
	a = newSingleAPI(t, openapi.Config{Source: secret}, handler)
	wantResult(t, a, "get", `{"q":"away"}`, `"from elsewhere"`)
	if got := fmt.Sprint(went.Load()); strings.Contains(got, "Bearer") || strings.Contains(got, "X-Key") || !strings.Contains(got,
		"Accept") {
		t.Errorf("with %s", got)
	}
	wantFailure(t, a, "put", `{}`, "redirects to another host, "+host+", which is followed for GET and HEAD only")
}

func TestOnlySafeRequestsAreRetried(t *testing.T) {
	var asked atomic.Int32
	var after atomic.Value
	after.Store("0")
	a := newSingleAPI(t, openapi.Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", after.Load().(string))
		w.WriteHeader(503)
	})
	for _, c := range []struct {
		name, after string
		want        int32
	}{{"get", "0", 3}, {"put", "0", 3}, {"head", "0", 3}, {"post", "0", 1}, {"get", "", 1}, {"get", "31", 1}, {"get", "soon", 1},
		{"get", "Thu, 01 Jan 1970 00:00:00 GMT", 3}} {
		asked.Store(0)
		after.Store(c.after)
		wantFailure(t, a, c.name, `{}`, "answered 503 Service Unavailable")
		if asked.Load() != c.want {
			t.Errorf("%s with %q: %d requests, want %d", c.name, c.after, asked.Load(), c.want)
		}
	}
}

// A request that is not sent again, after a response that leaves open whether it took effect, does
// not count as one that was not sent.
func TestRetryThatIsNotSentLeavesTheOutcomeOpen(t *testing.T) {
	for name, status := range map[string]int{"may have effect": 503, "has no effect": 429} {
		for second, next := range map[string]func(*httptest.Server, http.ResponseWriter){
			"is refused": func(s *httptest.Server, w http.ResponseWriter) {
				s.Listener.Close()
				w.Header().Set("Connection", "close")
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(status)
			},
			"has no credentials": func(_ *httptest.Server, w http.ResponseWriter) {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(status)
			},
		} {
			t.Run(name+", "+second, func(t *testing.T) {
				var tokens, puts atomic.Int32
				var s *httptest.Server
				s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.URL.Path == "/token" && tokens.Add(1) == 1:
						response(w, "application/json", `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
					case r.URL.Path == "/token":
						w.WriteHeader(http.StatusBadRequest)
					case puts.Add(1) == 1:
						next(s, w)
					default:
						w.WriteHeader(http.StatusUnauthorized)
					}
				}))
				defer s.Close()
				auth := openapi.Auth{Client: &openapi.ClientCredentials{TokenURL: s.URL + "/token", ID: "me", Secret: "secret"}}
				a := open(t, openapi.Config{Source: openapi.Source{Auth: auth}}, at(s.URL, "\n  /x:\n    put: {operationId: put}\n"))
				_, err := call(t.Context(), a, "put", `{}`)
				if err == nil || puts.Load() == 0 || tool.IsNotSent(err) != (status == 429) {
					t.Errorf("after %d requests: not sent is %v: %v", puts.Load(), tool.IsNotSent(err), err)
				}
			})
		}
	}
}

// A request whose effect is followed by a redirect to its result, which refuses the token, is not sent
// again.
func TestRequestIsNotRepeatedForItsResult(t *testing.T) {
	var posts atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			response(w, "application/json", `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
		case r.Method == http.MethodPost:
			posts.Add(1)
			http.Redirect(w, r, "/result", http.StatusSeeOther)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer s.Close()
	auth := openapi.Auth{Client: &openapi.ClientCredentials{TokenURL: s.URL + "/token", ID: "me", Secret: "secret"}}
	a := open(t, openapi.Config{Source: openapi.Source{Auth: auth}}, at(s.URL, "\n  /x:\n    post: {operationId: post}\n"))
	_, err := call(t.Context(), a, "post", `{}`)
	if f, answered := errors.AsType[*tool.Failure](err); !answered || !f.Unknown || posts.Load() != 1 {
		t.Errorf("after %d requests: %#v", posts.Load(), err)
	}
}

func TestRetryWaitEndsWithContext(t *testing.T) {
	release := make(chan struct{})
	a := newSingleAPI(t, openapi.Config{}, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	slow := errors.New("too slow")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, slow)
	defer cancel()
	if _, err := call(ctx, a, "get", `{}`); !errors.Is(err, slow) {
		t.Error(err)
	}
}

func TestPagesAreJoined(t *testing.T) {
	var last atomic.Value
	a := newSingleAPI(t, openapi.Config{MaxResponse: 100}, func(w http.ResponseWriter, r *http.Request) {
		last.Store(r.URL.String())
		q := r.URL.Query()
		page := len(q.Get("page"))
		link := fmt.Sprintf(`</x?q=%s&page=%s>; rel="prev next", </x>; rel=first`, q.Get("q"), strings.Repeat("p", page+1))
		switch {
		case q.Get("q") == "away":
			link = `<http://other.example.invalid/x>; rel=next`
		case page == 3:
			link = `</x>; rel=first`
		}
		w.Header().Set("Link", link)
		switch {
		case q.Get("q") == "fails" && page == 1:
			w.WriteHeader(500)
		case q.Get("q") == "changes" && page == 1:
			response(w, "application/json", `{}`)
		case q.Get("q") == "large":
			response(w, "application/json", `["`+strings.Repeat("x", 40)+`"]`)
		case q.Get("q") == "object":
			response(w, "application/json", `{"a":1}`)
		default:
			response(w, "application/json", fmt.Sprintf(`[%d]`, page))
		}
	})
	wantResult(t, a, "get", `{}`, "[0]")
	wantResult(t, a, "get", `{"pages":2}`, "[0,1]")
	wantResult(t, a, "get", `{"pages":50}`, "[0,1,2,3]")
	wantResult(t, a, "get", `{"q":"object","pages":50}`, `{"a":1}`)
	wantFailure(t, a, "get", `{"q":"away","pages":2}`, "links to a next page at another host")
	wantFailure(t, a, "get", `{"q":"fails","pages":3}`, "answered 500 Internal Server Error")
	wantFailure(t, a, "get", `{"q":"changes","pages":3}`, "sent a page that is not a list, after 1 pages")
	wantFailure(t, a, "get", `{"q":"large","pages":3}`, "response too large")
}

func TestUnreachableEndpointIsReported(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	a := open(t, openapi.Config{}, at(s.URL, "  /x: {get: {operationId: get}}\n"))
	wantFailure(t, a, "get", `{}`, "connection refused")
	a = open(t, openapi.Config{}, at("http://no-such-host.invalid", "  /x: {get: {operationId: get}}\n"))
	if _, err := call(t.Context(), a, "get", `{}`); err == nil {
		t.Error("an unreachable host answered")
	}
}

func TestChangedDocumentIsReloaded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { response(w, "text/plain", r.URL.Path) }))
	defer s.Close()
	dir := t.TempDir()
	path := writeFile(t, dir, "api.yaml", at(s.URL, "  /old: {get: {operationId: get}}\n"))
	notified := 0
	a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: path}, ToolsChanged: func() { notified++ }})
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, a, "get", `{}`, `"/old"`)
	writeFile(t, dir, "api.yaml", at(s.URL, "  /newer: {get: {operationId: get}}\n"))
	wantResult(t, a, "get", `{}`, `"/newer"`)
	if notified != 1 {
		t.Errorf("notified %d times", notified)
	}
	writeFile(t, dir, "api.yaml", "openapi: broken")
	wantFailure(t, a, "get", `{}`, "has a document that cannot be used: "+path[strings.LastIndex(path, "/")+1:])
	os.Remove(path)
	if _, _, err := a.Tools(t.Context(), "x"); err == nil || !strings.Contains(errorText(err), "does not exist") {
		t.Error(err)
	}
}
