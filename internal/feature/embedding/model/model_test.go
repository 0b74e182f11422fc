package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model/modeltest"
)

// resolve replaces one variable.
func resolve(_ context.Context, text string) (string, error) {
	return strings.ReplaceAll(text, "${KEY}", modeltest.Key), nil
}

func embedder(t *testing.T, cfg model.Config) *model.Embedder {
	t.Helper()
	if cfg.Provider == "" {
		cfg.Provider, cfg.URL = model.OpenAI, cfg.URL+"/v1"
	}
	if cfg.Model == "" {
		cfg.Model = "small"
	}
	cfg.Resolve = resolve
	e, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestEmbedWithEachProvider(t *testing.T) {
	at := modeltest.Serve(t)
	for _, cfg := range []model.Config{
		{Provider: model.OpenAI, URL: at.URL + "/v1/", Key: "${KEY}"},
		{Provider: model.OpenAI, URL: at.URL + "/v1", Key: "${KEY}", Dimensions: 16},
		{Provider: model.Azure, URL: at.URL, Key: "${KEY}"},
		{Provider: model.Azure, URL: at.URL, Key: "${KEY}", APIVersion: "2024-02-01"},
		{Provider: model.Ollama, URL: at.URL},
	} {
		vs, err := embedder(t, cfg).Embed(t.Context(), []string{"list issues", "send mail", "list the issues"})
		if err != nil {
			t.Errorf("%+v: %v", cfg, err)
			continue
		}
		want := cfg.Dimensions
		if want == 0 {
			want = modeltest.Dimensions
		}
		if len(vs) != 3 || len(vs[0]) != want || dot(vs[0], vs[2]) < dot(vs[0], vs[1]) || math.Abs(dot(vs[1], vs[1])-1) > 1e-5 {
			t.Errorf("%s: %d vectors of %d", cfg.Provider, len(vs), len(vs[0]))
		}
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestIdentityDependsOnConfig(t *testing.T) {
	seen := map[string]bool{}
	for _, cfg := range []model.Config{
		{Provider: model.OpenAI, Model: "a"}, {Provider: model.OpenAI, Model: "b"}, {Provider: model.OpenAI, Model: "a", Dimensions: 5},
		{Provider: model.OpenAI, Model: "a", URL: "http://other/v1"}, {Provider: model.Ollama, Model: "a"},
	} {
		e, err := model.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		id, err := e.Identity()
		if err != nil || seen[id] {
			t.Errorf("%q, %v", id, err)
		}
		seen[id] = true
	}
}

// respond returns a handler that answers every request with a status and a body.
func respond(status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

func numbers(n int, each string) string {
	return strings.TrimSuffix(strings.Repeat(each+",", n), ",")
}

func TestEmbedRejectsInvalidResponses(t *testing.T) {
	one := `{"data": [{"index": 0, "embedding": [%s]}]}`
	for name, c := range map[string]struct {
		broken func(http.ResponseWriter, *http.Request) bool
		kind   fault.Kind
		want   string
	}{
		"no JSON": {respond(200, "<html>hello</html>"), fault.Unavailable, "invalid list of vectors: it is not JSON"},
		"nothing": {respond(200, ""), fault.Unavailable, "it is not JSON"},
		"an error with status 200": {respond(200, `{"error": {"message": "sk-secret"}}`), fault.Unavailable,
			"it has 0 vectors instead of 1"},
		"short":            {respond(200, fmt.Sprintf(one, "0.5, 0.25")), fault.Unavailable, "a vector of 2 dimensions instead of 64"},
		"empty":            {respond(200, fmt.Sprintf(one, "")), fault.Unavailable, "a vector of 0 dimensions"},
		"zero":             {respond(200, fmt.Sprintf(one, numbers(64, "0"))), fault.Unavailable, "without a direction"},
		"NaN":              {respond(200, fmt.Sprintf(one, numbers(64, "NaN"))), fault.Unavailable, "not JSON"},
		"infinite":         {respond(200, fmt.Sprintf(one, numbers(64, "1e39"))), fault.Unavailable, "not JSON"},
		"huge numbers":     {respond(200, fmt.Sprintf(one, numbers(64, "3e38"))), fault.Internal, ""}, // float64 holds their squares
		"another place":    {respond(200, `{"data": [{"index": 1, "embedding": [1]}]}`), fault.Unavailable, "indexes are wrong"},
		"a negative place": {respond(200, `{"data": [{"index": -1, "embedding": [1]}]}`), fault.Unavailable, "indexes are wrong"},
		"texts": {respond(200, `{"data": [{"index": 0, "embedding": "AAAA"}]}`), fault.Unavailable,
			"not JSON of the expected structure"},
		"a bad key": {respond(401, "Incorrect API key provided: "+modeltest.Key), fault.Denied, "status 401"},
		"no model":  {respond(404, ""), fault.NotFound, "status 404"},
		"too long":  {respond(400, ""), fault.Invalid, "status 400"},
		"a quota":   {respond(429, ""), fault.Exhausted, "status 429"},
		"a crash":   {respond(500, "panic: "+modeltest.Key), fault.Unavailable, "status 500"},
		"elsewhere": {redirects, fault.Invalid, "status 302"},
		"a flood":   {respond(200, strings.Repeat(" ", 17<<20)), fault.Unavailable, "more than"},
		"hung up":   {hangsUp, fault.Unavailable, "cannot be reached"},
	} {
		at := modeltest.Serve(t)
		e := embedder(t, model.Config{URL: at.URL, Key: "${KEY}"})
		if _, err := e.EmbedOne(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		at.Break(c.broken)
		_, err := e.EmbedOne(t.Context(), "a private text")
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if fault.KindOf(err) != c.kind || !strings.Contains(fault.Message(err), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if said := fmt.Sprint(err, fault.Hint(err)); strings.Contains(said, "sk-") || strings.Contains(said, "private") ||
			strings.Contains(said, "/v1") {
			t.Errorf("%s: error contains a secret or a text: %s", name, said)
		}
	}
}

func redirects(w http.ResponseWriter, r *http.Request) bool {
	http.Redirect(w, r, "http://127.0.0.1:1/v1/embeddings", http.StatusFound)
	return true
}

func hangsUp(w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) }

func TestEmbedRetriesTemporaryErrors(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		at := modeltest.Serve(t)
		var mu sync.Mutex
		attempts := 0
		at.Break(func(w http.ResponseWriter, _ *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if attempts++; attempts > 2 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			return true
		})
		e := embedder(t, model.Config{URL: at.URL, Key: "${KEY}"})
		if _, err := e.EmbedOne(t.Context(), "once"); err == nil || attempts != 1 {
			t.Errorf("%d: EmbedOne made %d attempts: %v", status, attempts, err)
		}
		if _, err := e.Embed(t.Context(), []string{"again"}); err != nil || attempts != 3 {
			t.Errorf("%d: after %d attempts: %v", status, attempts, err)
		}
	}
}

func TestEmbedDoesNotRetryPermanentErrors(t *testing.T) {
	at := modeltest.Serve(t)
	attempts := 0
	at.Break(func(w http.ResponseWriter, _ *http.Request) bool {
		attempts++
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	if _, err := embedder(t, model.Config{URL: at.URL}).Embed(t.Context(), []string{"x"}); fault.KindOf(err) != fault.Denied ||
		attempts != 1 {
		t.Errorf("%d attempts: %v", attempts, err)
	}
}

func TestEmbedEndsWithItsContext(t *testing.T) {
	at := modeltest.Serve(t)
	left := make(chan struct{})
	at.Break(func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after reading the body
		<-r.Context().Done()
		close(left)
		return true
	})
	e := embedder(t, model.Config{URL: at.URL, Key: "${KEY}"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := e.Embed(ctx, []string{"x"}); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "in time") {
		t.Errorf("%v", err)
	}
	<-left
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestEmbedReportsUnreachableEndpoint(t *testing.T) {
	e := embedder(t, model.Config{URL: "http://127.0.0.1:1", Key: "${KEY}"})
	if _, err := e.EmbedOne(t.Context(), "x"); fault.KindOf(err) != fault.Unavailable ||
		fault.Message(err) != "the embedding endpoint at 127.0.0.1:1 cannot be reached" {
		t.Errorf("%v", err)
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for _, cfg := range []model.Config{{}, {Provider: "x", Model: "m"}, {Provider: model.OpenAI}, {Provider: model.Azure, Model: "m"},
		{Provider: model.Local, Model: "../x"}} {
		if _, err := model.New(cfg); err == nil || fault.Message(err) == "" {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, url := range []string{"127.0.0.1:80", "ftp://x", "http://user:sk-secret@x", "http://x?key=sk-secret", "::"} {
		e, err := model.New(model.Config{Provider: model.Ollama, Model: "m", URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.EmbedOne(t.Context(), "x"); fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestEmbedIsConcurrent(t *testing.T) {
	at := modeltest.Serve(t)
	e := embedder(t, model.Config{URL: at.URL, Key: "${KEY}"})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			text := fmt.Sprint("text ", i)
			v, err := e.EmbedOne(t.Context(), text)
			if err != nil || math.Abs(dot(v, modeltest.Vector(text, modeltest.Dimensions))-1) > 1e-3 {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
}
