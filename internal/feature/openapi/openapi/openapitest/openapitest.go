// Package openapitest serves an API over HTTP from its OpenAPI document, for tests: it routes paths and
// methods, checks required values, and answers with the examples of the document.
//
// It parses the document independently of the parser under test.
package openapitest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Pages is the number of pages of a list.
const Pages = 3

// Request is a received request.
type Request struct {
	Method string
	URI    string // as it was sent
	Header http.Header
	Body   string
}

// Server is a running API.
type Server struct {
	*httptest.Server
	Token string // required bearer token; "" means none

	doc      map[string]any
	mu       sync.Mutex
	requests []Request
}

// Serve runs the API of a document until the test ends.
func Serve(t testing.TB, path, token string) *Server {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Token: token}
	if err := json.Unmarshal(data, &s.doc); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, item := range s.object(s.doc["paths"]) {
		for method, op := range s.object(item) {
			mux.HandleFunc(strings.ToUpper(method)+" "+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.object(op)) })
		}
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		s.mu.Lock()
		s.requests = append(s.requests, Request{r.Method, r.RequestURI, r.Header, string(body)})
		s.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Requests returns all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// object returns v as an object, following references within the document.
func (s *Server) object(v any) map[string]any {
	m, _ := v.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	var at any = s.doc
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[step]
	}
	return s.object(at)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, op map[string]any) {
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		answer(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
		return
	}
	if missing := s.missing(r, op); missing != nil {
		answer(w, http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed", "errors": missing})
		return
	}
	responses := s.object(op["responses"])
	for _, code := range []string{"200", "201", "204", "302"} {
		if responses[code] != nil {
			s.example(w, r, code, s.object(responses[code]))
			return
		}
	}
}

// missing returns the required parameters and fields that a request lacks.
func (s *Server) missing(r *http.Request, op map[string]any) (names []string) {
	list, _ := op["parameters"].([]any)
	for _, one := range list {
		p := s.object(one)
		name := p["name"].(string)
		if p["required"] == true && p["in"] == "query" && !r.URL.Query().Has(name) {
			names = append(names, name)
		}
	}
	content := s.object(s.object(op["requestBody"])["content"])
	media := s.object(content["application/json"])
	if media == nil {
		return names
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil && err != io.EOF {
		return append(names, err.Error())
	}
	required, _ := s.object(media["schema"])["required"].([]any)
	for _, name := range required {
		if body[name.(string)] == nil {
			names = append(names, name.(string))
		}
	}
	return names
}

func (s *Server) example(w http.ResponseWriter, r *http.Request, code string, response map[string]any) {
	status, _ := strconv.Atoi(code)
	headers := s.object(response["headers"])
	if page := max(1, number(r.URL.Query().Get("page"))); headers["Link"] != nil && page < Pages {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(page+1))
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?%s>; rel="next", <http://%s/last>; rel="last"`, r.Host, r.URL.EscapedPath(),
			q.Encode(), r.Host))
	}
	if status == http.StatusFound {
		w.Header().Set("Location", "http://codeload.example.invalid/archive")
	}
	content := s.object(response["content"])
	for _, mime := range []string{"application/json", "text/plain", "text/html"} {
		media := s.object(content[mime])
		if media == nil {
			continue
		}
		w.Header().Set("Content-Type", mime)
		value := media["example"]
		if all := s.object(media["examples"]); len(all) > 0 {
			value = s.object(all[slices.Sorted(maps.Keys(all))[0]])["value"]
			if m, ok := value.(map[string]any); ok && m["$ref"] != nil { // as GitHub writes some
				value = s.object(m)["value"]
			}
		}
		w.WriteHeader(status)
		if text, ok := value.(string); ok && mime != "application/json" {
			io.WriteString(w, text)
			return
		}
		json.NewEncoder(w).Encode(value)
		return
	}
	w.WriteHeader(status)
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
