package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Limits of requests, and pauses between attempts.
const (
	requestTimeout = 60 * time.Second
	maxResponse    = 16 << 20
	firstPause     = 500 * time.Millisecond
	longestPause   = 30 * time.Second
	requests       = 4 // at once
)

// dialect is the protocol of a provider.
type dialect struct {
	usual string // default URL
	path  func(cfg Config) string
	key   func(h http.Header, key string)
	read  func(body []byte, n int) ([][]float32, error)
}

var dialects = map[Provider]dialect{
	OpenAI: {"https://api.openai.com/v1", func(Config) string { return "/embeddings" }, bearer, readOpenAI},
	Azure:  {"", azurePath, func(h http.Header, key string) { h.Set("Api-Key", key) }, readOpenAI},
	Ollama: {"http://127.0.0.1:11434", func(Config) string { return "/api/embed" }, bearer, readOllama},
}

func bearer(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

func azurePath(cfg Config) string {
	if cfg.APIVersion == "" {
		return "/openai/v1/embeddings"
	}
	return "/openai/deployments/" + url.PathEscape(cfg.Model) + "/embeddings?api-version=" + url.QueryEscape(cfg.APIVersion)
}

// remote configures an Embedder that uses an endpoint.
func (e *Embedder) remote() error {
	d, ok := dialects[e.cfg.Provider]
	switch {
	case !ok:
		return fault.New(fault.Invalid, "unknown embedding provider %q", e.cfg.Provider)
	case e.cfg.Model == "":
		return fault.New(fault.Invalid, "search.embeddings.model is missing").WithHint("set search.embeddings.model")
	case e.cfg.URL == "" && d.usual == "":
		return fault.New(fault.Invalid, "search.embeddings.url is missing").
			WithHint("set search.embeddings.url to the endpoint of the Azure resource")
	}
	e.cfg.URL = cmp.Or(e.cfg.URL, d.usual)
	p := &endpoint{cfg: e.cfg, dialect: d, slots: make(chan struct{}, requests), client: &http.Client{
		// The key must not reach another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	e.embed = p.embed
	e.identity = func() (string, error) {
		return fmt.Sprintf("%s %s %s %d %s", e.cfg.Provider, e.cfg.URL, e.cfg.Model, e.cfg.Dimensions, e.cfg.APIVersion), nil
	}
	return nil
}

// endpoint embeds texts over HTTP.
type endpoint struct {
	cfg     Config
	dialect dialect
	client  *http.Client
	slots   chan struct{} // limits concurrent requests
}

func (e *Embedder) host() string {
	if e.Local() {
		return "the embedding model"
	}
	return (&endpoint{cfg: e.cfg}).host()
}

// host returns the host of the endpoint for messages. The URL may contain secrets.
func (p *endpoint) host() string {
	if u, err := url.Parse(p.cfg.URL); err == nil && u.Host != "" {
		return "the embedding endpoint at " + u.Host
	}
	return "the embedding endpoint"
}

func (p *endpoint) embed(ctx context.Context, texts []string, attempts int) ([][]float32, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, timeoutError(ctx, p.host())
	}
	for pause := firstPause; ; pause *= 2 {
		vs, wait, err := p.send(ctx, texts)
		if attempts--; err == nil || wait < 0 || attempts == 0 {
			return vs, err
		}
		wait = min(max(wait, pause+rand.N(pause/2)), longestPause)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// send sends one request. After a temporary error, wait is the pause that the endpoint
// demands; after a permanent one it is negative.
func (p *endpoint) send(ctx context.Context, texts []string) (vs [][]float32, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := p.request(ctx, texts)
	if err != nil {
		return nil, -1, err
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, 0, p.connectionError(ctx, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, 0, p.connectionError(ctx, err)
	case answer.StatusCode != http.StatusOK:
		return nil, pauseOf(answer), p.statusError(answer.StatusCode)
	case len(body) > maxResponse:
		return nil, -1, fault.New(fault.Unavailable, "%s returned more than %d bytes", p.host(), maxResponse)
	}
	if vs, err = p.dialect.read(body, len(texts)); err != nil {
		return nil, -1, fault.New(fault.Unavailable, "%s returned an invalid list of vectors: %s", p.host(), err).
			WithHint("check that search.embeddings.url belongs to the provider")
	}
	return vs, 0, nil
}

// requestBody is the body of a request. All providers share these names and ignore unknown
// ones.
type requestBody struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Dimensions int      `json:"dimensions,omitempty"`
}

func (p *endpoint) request(ctx context.Context, texts []string) (*http.Request, error) {
	base, key := p.cfg.URL, p.cfg.Key
	if p.cfg.Resolve != nil {
		var err error
		if base, err = p.cfg.Resolve(ctx, base); err != nil {
			return nil, err
		}
		if key, err = p.cfg.Resolve(ctx, key); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, fault.New(fault.Invalid, "search.embeddings.url is not a valid endpoint URL").
			WithHint("it must begin with http:// or https:// and have neither a user nor a query")
	}
	body, err := json.Marshal(requestBody{p.cfg.Model, texts, p.cfg.Dimensions})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+p.dialect.path(p.cfg), bytes.NewReader(body))
	if err != nil {
		return nil, fault.New(fault.Invalid, "search.embeddings.url is not a valid endpoint URL")
	}
	r.Header.Set("Content-Type", "application/json")
	if key = strings.TrimSpace(key); key != "" {
		p.dialect.key(r.Header, key)
	}
	return r, nil
}

// connectionError returns the error for a request without a response. It drops the *url.Error,
// which contains the whole URL.
func (p *endpoint) connectionError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return timeoutError(ctx, p.host())
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return fault.Wrap(fault.Unavailable, err, "%s cannot be reached", p.host()).
		WithHint("check that it runs and that search.embeddings.url is correct")
}

// timeoutError returns the error for a context that has ended: a timeout, or a cancellation.
func timeoutError(ctx context.Context, host string) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Canceled
	}
	return fault.New(fault.Unavailable, "%s did not respond in time", host).
		WithHint("check the endpoint, or increase search.embeddings.timeout")
}

// statusError returns the error for a status. It ignores the body, which may repeat the key.
func (p *endpoint) statusError(status int) error {
	kind, hint := fault.Unavailable, "check the log of the endpoint"
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		kind, hint = fault.Denied, "check search.embeddings.api_key"
	case status == http.StatusNotFound:
		kind, hint = fault.NotFound, "check that the model exists and that search.embeddings.url is correct"
	case status == http.StatusTooManyRequests:
		kind, hint = fault.Exhausted, "the quota of the endpoint is used up; the request is repeated later"
	case status < http.StatusInternalServerError:
		kind, hint = fault.Invalid, "check url, model and dimensions in search.embeddings"
	}
	return fault.New(kind, "%s returned status %d", p.host(), status).WithHint("%s", hint)
}

// pauseOf returns the pause after a status; negative if the error is permanent.
func pauseOf(answer *http.Response) time.Duration {
	if s := answer.StatusCode; s < http.StatusInternalServerError && s != http.StatusTooManyRequests && s != http.StatusRequestTimeout {
		return -1
	}
	after := answer.Header.Get("Retry-After")
	if s, err := strconv.Atoi(after); err == nil {
		return min(max(0, time.Duration(s)*time.Second), longestPause)
	}
	if t, err := http.ParseTime(after); err == nil {
		return min(max(0, time.Until(t)), longestPause)
	}
	return 0
}

func readOpenAI(body []byte, n int) ([][]float32, error) {
	var a struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, errors.New("it is not JSON of the expected structure")
	}
	if len(a.Data) != n {
		return nil, fmt.Errorf("it has %d vectors instead of %d", len(a.Data), n)
	}
	vs := make([][]float32, n)
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= n || vs[d.Index] != nil {
			return nil, errors.New("its indexes are wrong")
		}
		vs[d.Index] = d.Embedding
	}
	return vs, nil
}

func readOllama(body []byte, _ int) ([][]float32, error) {
	var a struct {
		Embeddings [][]float32 `json:"embeddings"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, errors.New("it is not JSON of the expected structure")
	}
	return a.Embeddings, nil
}
