// Package modeltest provides an embedding endpoint for tests. It implements the
// protocols of OpenAI, Azure OpenAI and Ollama, and can be made to fail.
//
// Its vectors are derived from the letters of a text, so that texts with similar
// words have similar vectors. They do not represent the quality of a real model. An
// Endpoint is safe for concurrent use.
package modeltest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Key is the only key that the endpoint accepts.
const Key = "sk-test-0123456789abcdef"

// Dimensions is the default number of dimensions.
const Dimensions = 64

// Endpoint is an HTTP server on the loopback interface.
type Endpoint struct {
	URL string

	mu     sync.Mutex
	broken func(w http.ResponseWriter, r *http.Request) bool
	texts  []string
}

// Serve starts an endpoint that is closed at the end of the test.
func Serve(t testing.TB) *Endpoint {
	e := &Endpoint{}
	s := httptest.NewServer(e)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	e.URL = s.URL
	return e
}

// Break makes f answer requests for which it returns true. A nil f removes the
// previous one.
func (e *Endpoint) Break(f func(w http.ResponseWriter, r *http.Request) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken = f
}

// Texts returns all texts that were sent.
func (e *Endpoint) Texts() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.texts...)
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	broken := e.broken
	e.mu.Unlock()
	if broken != nil && broken(w, r) {
		return
	}
	var asked struct {
		Model      string
		Input      []string
		Dimensions int
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Input) == 0 || asked.Model == "" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("Api-Key")
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, "method", http.StatusMethodNotAllowed)
	case key != Key && r.URL.Path != "/api/embed":
		http.Error(w, "Incorrect API key provided: "+key, http.StatusUnauthorized)
	case asked.Model == "missing":
		http.Error(w, "no such model", http.StatusNotFound)
	default:
		e.mu.Lock()
		e.texts = append(e.texts, asked.Input...)
		e.mu.Unlock()
		if asked.Dimensions == 0 {
			asked.Dimensions = Dimensions
		}
		answer(w, r, asked.Input, asked.Dimensions)
	}
}

func answer(w http.ResponseWriter, r *http.Request, texts []string, dimensions int) {
	switch path := r.URL.Path; {
	case path == "/api/embed":
		var vs [][]float32
		for _, t := range texts {
			vs = append(vs, Vector(t, dimensions))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"model": "m", "embeddings": vs})
	case path == "/v1/embeddings" && r.Header.Get("Authorization") != "",
		path == "/openai/v1/embeddings" && r.Header.Get("Api-Key") != "",
		path == "/openai/deployments/small/embeddings" && r.URL.Query().Get("api-version") == "2024-02-01":
		var data []any
		for i := range texts { // in reverse order: clients must use the indexes
			i = len(texts) - 1 - i
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": Vector(texts[i], dimensions)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "usage": map[string]int{"total_tokens": 1}})
	default:
		http.Error(w, fmt.Sprintf("no %s here", path), http.StatusNotFound)
	}
}

// Vector returns a vector that is derived from the trigrams of a text.
func Vector(text string, dimensions int) []float32 {
	v := make([]float32, dimensions)
	text = " " + strings.ToLower(text) + " "
	for i := 0; i+3 <= len(text); i++ {
		h := fnv.New32a()
		h.Write([]byte(text[i : i+3]))
		at := h.Sum32()
		v[at%uint32(dimensions)] += float32(1 - 2*int(at>>31))
	}
	sum := float32(1e-9)
	for _, x := range v {
		sum += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(float64(sum)))
	}
	v[0] += 1e-6 // the zero vector cannot be normalised
	return v
}
