package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// newAPISet returns a Set with one API, which h serves.
func newAPISet(t testing.TB, cfg upstream.Config, one upstream.Server, h http.HandlerFunc) *upstream.Set {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "api.yaml")
	document := "openapi: 3.1.0\ninfo: {title: Pets, version: '2', description: Knows pets.}\nservers: [{url: '" + s.URL +
		"'}]\npaths: {/x: {get: {operationId: get, parameters: [{name: x, in: query}]}, post: {operationId: post, requestBody: {content: " +
		"{text/plain: {}}}}}}\n"
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	if one.Kind == nil {
		one.Kind = &openapi.Source{}
	}
	one.Name, one.Kind.(*openapi.Source).Document = "pets", path
	cfg.Servers = append(cfg.Servers, one)
	return open(t, cfg)
}

func TestAPIServer(t *testing.T) {
	s := newAPISet(t, upstream.Config{}, upstream.Server{}, func(w http.ResponseWriter,
		r *http.Request) {
		fmt.Fprint(w, r.URL.Query().Get("x"))
	})
	if st := state(s, "pets"); st.State != upstream.Stopped {
		t.Errorf("%+v", st)
	}
	l, err := s.List(t.Context(), "pets")
	if err != nil || len(l.Tools) != 2 || l.Tools[0].Ref != (tool.Ref{Server: "pets", Tool: "get"}) || l.Info.Title != "Pets" ||
		l.Info.Instructions != "Knows pets." {
		t.Errorf("%+v, %v", l, err)
	}
	if r, err := call(t.Context(), s, "pets", "get", "hello"); err != nil || r.Text() != "hello" {
		t.Errorf("%+v, %v", r, err)
	}
	if st := state(s, "pets"); st.State != upstream.Ready || st.Info.Protocol != "OpenAPI 3.1.0" {
		t.Errorf("%+v", st)
	}
	_, err = s.ListResources(t.Context(), "pets")
	wantError(t, err, fault.NotFound, `server "pets" is an OpenAPI document, which has tools but no resources or prompts`)
	wantError(t, s.Login(t.Context(), "pets", person), fault.Invalid, `server "pets" is an OpenAPI document, which has no login`)
}

func TestInvalidDocumentIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.yaml")
	s := open(t, upstream.Config{RetryDelay: time.Hour, Servers: []upstream.Server{{Name: "pets", Kind: &openapi.Source{Document: path}},
		brokenServer(t, "good")}})
	_, err := s.List(t.Context(), "pets")
	wantError(t, err, fault.Invalid, `server "pets" has a document that cannot be used: the OpenAPI document api.yaml does not exist`)
	_, err = call(t.Context(), s, "pets", "get", "")
	wantError(t, err, fault.Invalid, "does not exist; the next attempt is in 1h")
	if st := state(s, "pets"); st.State != upstream.Failed || !strings.Contains(st.Reason, "does not exist") {
		t.Errorf("%+v", st)
	}
	wantEcho(t, s, "good")
}

// The errors of several servers are shown together: those of one are a line of limited length, in which
// nothing moves the cursor or reverses what follows.
func TestDocumentCannotHideErrorsOfOtherServers(t *testing.T) {
	const hostile = `\u001b[2J\u202e\n\nserver \"good\" failed`
	for name, text := range map[string]string{
		"path":      `"paths": {"/a` + hostile + `": {"get": {"operationId": "a", "parameters": 5}}}`,
		"long path": `"paths": {"/` + strings.Repeat("a", 1<<20) + `": {"get": {"operationId": "a", "parameters": 5}}}`,
		"reference": `"paths": {"/a": {"get": {"operationId": "a", "parameters": [{"$ref": "#/x` + hostile + `"}]}}}`,
		"file":      `"paths": {"/a": {"$ref": "./x` + hostile + `"}}`,
		"type": `"paths": {"/a": {"get": {"operationId": "a", "parameters": [{"in": "x` + hostile + `", "name": "` + hostile +
			`"}]}}}`,
		"scheme": `"paths": {"/a` + hostile + `": {"get": 1, "post": 2}}, "security": [{"a` + hostile + `": []}]`,
	} {
		path := filepath.Join(t.TempDir(), "api.json")
		text = `{"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "servers": [{"url": "https://api.example"}], ` + text + `}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, upstream.Config{RetryDelay: time.Hour, Servers: []upstream.Server{{Name: "pets",
			Kind: &openapi.Source{Document: path}}}})
		_, err := s.List(t.Context(), "pets")
		if err == nil {
			t.Errorf("%s: the document is used", name)
		}
		for _, shown := range []string{fault.Message(err), fault.Hint(err), state(s, "pets").Reason} {
			if len(shown) > 2000 || strings.ContainsAny(shown, "\n\x1b\u202e") {
				t.Errorf("%s: %d bytes: %.300q", name, len(shown), shown)
			}
		}
	}
}

func TestUnavailableAPIIsRetried(t *testing.T) {
	down := httptest.NewServer(nil)
	down.Close()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "up") }))
	defer up.Close()
	where := atomic.Value{}
	where.Store(down.URL)
	s := newAPISet(t, upstream.Config{RetryDelay: time.Millisecond, Resolve: func(_ context.Context, v string) (string, error) {
		return strings.ReplaceAll(v, "${WHERE}", where.Load().(string)), nil
	}}, upstream.Server{Kind: &openapi.Source{URL: "${WHERE}"}}, nil)
	_, err := call(t.Context(), s, "pets", "get", "")
	wantError(t, err, fault.Unavailable, `server "pets" cannot be reached: connect: connection refused`)
	until(t, "the failure to be seen", func() bool { return state(s, "pets").State == upstream.Failed })
	if st := state(s, "pets"); !strings.Contains(st.Reason, "cannot be reached") {
		t.Errorf("%+v", st)
	}
	where.Store(up.URL)
	until(t, "it to be tried again", func() bool {
		r, err := call(t.Context(), s, "pets", "get", "")
		return err == nil && r.Text() == "up"
	})
}

func TestAPITimeoutAndSizeLimit(t *testing.T) {
	release := make(chan struct{})
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("x") {
		case "slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "drips":
			for r.Context().Err() == nil {
				w.Write([]byte("x"))
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		case "huge":
			io.WriteString(w, strings.Repeat("x", 1<<20))
		case "hangs up":
			panic(http.ErrAbortHandler)
		}
	}
	hurried := newAPISet(t, upstream.Config{}, upstream.Server{Timeout: 100 * time.Millisecond}, answer)
	s := newAPISet(t, upstream.Config{MaxResponse: 1000}, upstream.Server{}, answer)
	defer close(release)
	for x, want := range map[string]string{"slow": "did not respond within 100ms while calling get",
		"drips": "did not respond within 100ms"} {
		_, err := call(t.Context(), hurried, "pets", "get", x)
		wantError(t, err, fault.Exhausted, want)
	}
	_, err := call(t.Context(), s, "pets", "get", "huge")
	wantError(t, err, fault.Exhausted, "sent a response of more than 1000 bytes while calling get")
	_, err = call(t.Context(), s, "pets", "get", "hangs up")
	wantError(t, err, fault.Unavailable, "sent no readable response: EOF")
}

func TestAPISecretIsRedacted(t *testing.T) {
	var log logtest.Log
	resolve := func(_ context.Context, v string) (string, error) {
		if v == "${NONE}" {
			return "", fault.New(fault.Invalid, "the variable NONE is not set")
		}
		return strings.ReplaceAll(v, "${TOKEN}", "sesame-open"), nil
	}
	auth := openapi.Auth{Bearer: "${TOKEN}"}
	s := newAPISet(t, upstream.Config{Resolve: resolve, Log: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))},
		upstream.Server{Kind: &openapi.Source{Auth: auth, Headers: map[string]string{"X-Api-Key": "written-down"}}},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(403)
			fmt.Fprintf(w, `{"message":"not with %s and %s"}`, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
		})
	_, err := call(t.Context(), s, "pets", "get", "")
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok || !strings.Contains(f.Message, "not with Bearer [secret] and [secret]") || strings.Contains(string(f.Data)+log.String(),
		"sesame") {
		t.Errorf("%v %s", err, log.String())
	}
	s = newAPISet(t, upstream.Config{Resolve: resolve}, upstream.Server{Kind: &openapi.Source{Auth: openapi.Auth{Bearer: "${NONE}"}}}, nil)
	_, err = call(t.Context(), s, "pets", "get", "")
	wantError(t, err, fault.Invalid, `server "pets" has no value for its auth.bearer: the variable NONE is not set`)
}

func TestConcurrentAPICallsAreLimited(t *testing.T) {
	var now, most atomic.Int32
	s := newAPISet(t, upstream.Config{}, upstream.Server{Concurrency: 3}, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		fmt.Fprint(w, r.URL.Query().Get("x"))
	})
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			if r, err := call(t.Context(), s, "pets", "get", fmt.Sprint(i)); err != nil || r.Text() != fmt.Sprint(i) {
				t.Errorf("%d: %v %v", i, r, err)
			}
		})
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d concurrent calls", most.Load())
	}
}

func TestFirstAPICallTriggersListing(t *testing.T) {
	changed := make(chan string, 10)
	s := newAPISet(t, upstream.Config{ToolsChanged: func(_ context.Context, name string) { changed <- name }}, upstream.Server{},
		func(http.ResponseWriter, *http.Request) {})
	if _, err := call(t.Context(), s, "pets", "get", ""); err != nil {
		t.Fatal(err)
	}
	if got := <-changed; got != "pets" {
		t.Error(got)
	}
}

func TestRedirectFailsOneOperation(t *testing.T) {
	down := httptest.NewServer(nil)
	down.Close()
	var there http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		switch where := r.URL.Query().Get("x"); where {
		case "":
			fmt.Fprint(w, "here")
		case "next":
			w.Header().Set("Link", `<http://other.example/>; rel=next`)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "[1]")
		default:
			http.Redirect(w, r, where, http.StatusFound)
		}
	}
	up := httptest.NewServer(there)
	defer up.Close()
	path := filepath.Join(t.TempDir(), "api.yaml")
	document := `
openapi: 3.1.0
info: {title: x, version: x}
servers: [{url: '` + up.URL + `'}]
paths:
  /x: {get: {operationId: get, parameters: [{name: x, in: query}], responses: {"200": {headers: {Link: {}}, content: {application/json: {}}}}}}
  /away: {get: {operationId: away, servers: [{url: 'https://away.example'}]}}
  /down: {get: {operationId: down, servers: [{url: '` + down.URL + `'}]}}
`
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(down.URL, "http://")
	s := open(t, upstream.Config{RetryDelay: time.Hour, Servers: []upstream.Server{{Name: "pets",
		Kind: &openapi.Source{Document: path, Hosts: []string{host}}}}})
	for _, c := range []struct{ tool, args, want string }{
		{"get", `{"x":"https://other.example/file"}`, `server "pets" redirects to another host, other.example, which is not followed`},
		{"get", `{"x":"` + down.URL + `"}`, "has this operation at " + host + ", which cannot be reached: connect: connection refused"},
		{"get", `{"x":"next","pages":2}`, "links to a next page at another host, which is not followed"},
		{"away", `{}`, "has this operation at away.example, which is not one of its hosts"},
		{"down", `{}`, "has this operation at " + host + ", which cannot be reached: connect: connection refused"},
	} {
		_, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "pets", Tool: c.tool}, Args: []byte(c.args)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(fault.Hint(err), "credential") { // there are none
			t.Errorf("%s%s: %v; %s", c.tool, c.args, err, fault.Hint(err))
		}
		if r, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "pets", Tool: "get"}}); err != nil || r.Text() != "here" ||
			state(s, "pets").State != upstream.Ready {
			t.Errorf("after %s%s: %v %v, %+v", c.tool, c.args, r, err, state(s, "pets"))
		}
	}
}

func TestCredentialInAnswerIsRedacted(t *testing.T) {
	const secret = `ses/ame+"op<en>&é1`
	quoted, _ := json.Marshal(secret)
	resolve := func(_ context.Context, v string) (string, error) {
		v = strings.ReplaceAll(v, "${NUMBER}", "12345678")
		return strings.ReplaceAll(v, "${KEY}", secret), nil
	}
	auth := map[string]openapi.Auth{
		"query":  {Key: &openapi.APIKey{In: "query", Name: "key", Value: "${KEY}"}},
		"cookie": {Key: &openapi.APIKey{In: "cookie", Name: "key", Value: "${KEY}"}},
		"number": {Key: &openapi.APIKey{In: "query", Name: "key", Value: "${NUMBER}"}},
		"bearer": {Bearer: "${KEY}"},
		"basic":  {Basic: &openapi.Basic{User: "me", Password: "${KEY}"}},
	}
	for name, a := range auth {
		var mime, answer atomic.Value
		s := newAPISet(t, upstream.Config{Resolve: resolve},
			upstream.Server{Kind: &openapi.Source{Auth: a, Headers: map[string]string{"X-Name": "plain"}}}, func(w http.ResponseWriter,
				r *http.Request) {
				w.Header().Set("Content-Type", mime.Load().(string))
				text := strings.NewReplacer("URL", r.URL.String(), "JSONAUTH", strings.ReplaceAll(r.Header.Get("Authorization"), `"`, `\"`),
					"AUTH", r.Header.Get("Authorization"), "COOKIE", r.Header.Get("Cookie"))
				io.WriteString(w, text.Replace(answer.Load().(string)))
			})
		for _, c := range [][2]string{
			{"application/json", `{"a":"URL JSONAUTH","b":` + string(quoted) + `,"c":["x12345678"],"n":[12345678,-1.5],"me":"me plain"}`},
			{"application/json", `{"py":"ses/ame+\"op<en>&\u00e91","php":"ses\/ame+\"op<en>&é1","me":"me plain"}`},
			{"text/html", "URL AUTH COOKIE " + secret + " ses/ame+&#34;op&lt;en&gt;&amp;é1 12345678 me plain"},
			{"image/png", "URL AUTH COOKIE " + secret + " 12345678 me plain"},
		} {
			mime.Store(c[0])
			answer.Store(c[1])
			r, err := call(t.Context(), s, "pets", "get", "")
			if err != nil {
				t.Fatal(err)
			}
			shown := string(r.Structured)
			for _, p := range r.Parts {
				shown += p.Text + string(p.Data)
			}
			bad := []string{"ame", "zL2Ft"} // plain and in base64
			if name == "number" {
				bad = []string{"12345678"}
			}
			for _, b := range bad {
				if strings.Contains(shown, b) {
					t.Errorf("%s, %s: %q is in %s", name, c[0], b, shown)
				}
			}
			if !strings.Contains(shown, "me plain") || c[0] == "application/json" && !json.Valid(r.Structured) {
				t.Errorf("%s: %s", name, shown)
			}
		}
	}
}

// A URL contains secrets, and parts that links in results need.
func TestURLSecretInAnswerIsRedacted(t *testing.T) {
	values := map[string]string{"${API_KEY}": "sesame+open", "${file:/key}": "sesame-file", "${ORG}": "acme-corp", "${X}": "sesame-x"}
	var document atomic.Value
	answer := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "http://", r.Host, strings.TrimRight(strings.TrimSuffix(r.URL.String(), "x="), "?&"), " see ", document.Load())
	}
	web := httptest.NewServer(http.HandlerFunc(answer))
	defer web.Close()
	host := strings.TrimPrefix(web.URL, "http://")
	values["${TOKEN_HOST}"], values["${SECRET_BASE}"] = host, web.URL
	for at, want := range map[string]string{
		web.URL + "/bot${API_KEY}/v1":       web.URL + "/bot[secret]/v1/x",
		web.URL + "/${file:/key}/${ORG}":    web.URL + "/[secret]/acme-corp/x",
		"http://${TOKEN_HOST}/${API_KEY}":   web.URL + "/[secret]/x",
		"${SECRET_BASE}/${ORG}":             web.URL + "/acme-corp/x",
		"http://" + host + "/${ORG}/${ORG}": web.URL + "/acme-corp/acme-corp/x",
		web.URL + "/v1?key=${X}":            web.URL + "/v1/x?key=[secret]",
	} {
		resolve := func(_ context.Context, v string) (string, error) {
			for reference, value := range values {
				v = strings.ReplaceAll(v, reference, value)
			}
			return v, nil
		}
		source := &openapi.Source{URL: at}
		s := newAPISet(t, upstream.Config{Resolve: resolve}, upstream.Server{Kind: source}, answer)
		document.Store(source.Document)
		r, err := call(t.Context(), s, "pets", "get", "")
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		if shown := r.Text(); shown != want+" see "+source.Document {
			t.Errorf("%s: %s", at, shown)
		}
	}
}
