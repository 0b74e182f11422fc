package model

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Limits of responses, in bytes.
const (
	maxAnswer  = 1 << 20
	maxProblem = 64 << 10
)

// anthropicVersion is the version of the messages protocol.
const anthropicVersion = "2023-06-01"

// endpoint asks a model over HTTP.
type endpoint struct {
	cfg     Config
	dialect dialect
	client  *http.Client
	old     atomic.Bool // it rejects newer parameters
}

func newEndpoint(cfg Config) *endpoint {
	d := dialects[cfg.Provider]
	cfg.URL = cmp.Or(cfg.URL, d.usual)
	return &endpoint{cfg: cfg, dialect: d, client: &http.Client{
		// The key must not reach another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask sends a request and reads the stream of its answer. An endpoint that rejects newer
// parameters gets a second request without them, and later requests have none.
func (e *endpoint) ask(ctx context.Context, q question, progress func(string)) (answer, error) {
	old := e.old.Load()
	a, err := e.exchange(ctx, q, old, progress)
	if !old && errors.Is(err, errOutdated) {
		e.old.Store(true)
		a, err = e.exchange(ctx, q, true, progress)
	}
	return a, err
}

// errOutdated is in the chain of the error of an endpoint that rejects newer parameters.
var errOutdated = errors.New("a parameter is not supported")

// exchange sends one request; old is one without newer parameters.
func (e *endpoint) exchange(ctx context.Context, q question, old bool, progress func(string)) (answer, error) {
	response, host, err := e.send(ctx, q, old)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem))
		err := statusError(response, body, host)
		if e.outdated(response.StatusCode, body) {
			err = errors.Join(err, errOutdated)
		}
		return answer{}, err
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return answer{}, fault.New(fault.Unavailable, "%s returned no stream of events", host).
			WithHint("check that tasks.url is correct, and that the endpoint supports streaming")
	}
	return e.read(response.Body, host, progress)
}

// outdated reports whether an endpoint rejects a request because of a newer parameter.
func (e *endpoint) outdated(status int, body []byte) bool {
	rejected := status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
	return rejected && e.cfg.Provider != Anthropic &&
		slices.ContainsFunc(newer, func(name string) bool { return bytes.Contains(body, []byte(name)) })
}

// send sends one request. The host is its name for messages.
func (e *endpoint) send(ctx context.Context, q question, old bool) (response *http.Response, host string, err error) {
	base, err := resolved(ctx, e.cfg, e.cfg.URL)
	if err != nil {
		return nil, "", err
	}
	key, err := resolved(ctx, e.cfg, e.cfg.Key)
	if err != nil {
		return nil, "", err
	}
	host = hostOf(base)
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, host, fault.New(fault.Invalid, "tasks.url is not a valid endpoint URL").
			WithHint("it must begin with http:// or https:// and have neither a user nor a query")
	}
	body, err := json.Marshal(e.dialect.body(e.cfg, q, old))
	if err != nil {
		return nil, host, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.dialect.path(e.cfg, strings.TrimRight(base, "/")), bytes.NewReader(body))
	if err != nil {
		return nil, host, fault.New(fault.Invalid, "tasks.url is not a valid endpoint URL")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if e.cfg.Provider == Anthropic {
		r.Header.Set("Anthropic-Version", anthropicVersion)
	}
	if key != "" {
		e.dialect.key(r.Header, key)
	}
	response, err = e.client.Do(r)
	if err != nil {
		return nil, host, broken(err, host, "cannot be reached")
	}
	return response, host, nil
}

// read reads the events of an answer up to the last one.
func (e *endpoint) read(stream io.Reader, host string, progress func(string)) (a answer, err error) {
	var text strings.Builder
	defer func() { a.text = text.String() }()
	last := false
	err = events(stream, func(data []byte) error {
		part, end, problem := e.dialect.read(data, &a)
		switch {
		case problem != "":
			return streamError(problem, host)
		case text.Len()+len(part) > maxAnswer:
			return errLong
		case end:
			last = true
			return io.EOF
		}
		text.WriteString(part)
		if part != "" {
			progress(part)
		}
		return nil
	})
	switch {
	case last || err == nil && a.finished:
		a.finished = true
		return a, nil
	case errors.Is(err, bufio.ErrTooLong) || errors.Is(err, errLong):
		return a, noProgram("the answer is too long")
	case err == nil:
		return a, broken(io.ErrUnexpectedEOF, host, "closed the stream before the end of the answer")
	}
	if _, ours := errors.AsType[*fault.Error](err); ours {
		return a, err
	}
	if a.finished {
		return a, nil
	}
	return a, broken(err, host, "closed the stream before the end of the answer")
}

// resolved replaces the references in a text.
func resolved(ctx context.Context, cfg Config, text string) (string, error) {
	if cfg.Resolve != nil {
		var err error
		if text, err = cfg.Resolve(ctx, text); err != nil {
			return "", err
		}
	}
	return strings.TrimSpace(text), nil
}

// hostOf names an endpoint for messages. Its URL may contain secrets.
func hostOf(base string) string {
	if u, err := url.Parse(base); err == nil && u.Host != "" {
		return "the model endpoint at " + u.Host
	}
	return "the model endpoint"
}

// broken returns the failure of a connection. It drops the *url.Error, which contains the
// whole URL.
func broken(err error, host, what string) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	return &failure{fault.Wrap(fault.Unavailable, err, "%s %s", host, what).WithHint("check that it runs and that tasks.url is correct"),
		-1}
}

// knownCode matches the codes of errors that are safe to show: the rest of a response may
// repeat the key.
var knownCode = regexp.MustCompile(`^[a-z]+(_[a-z]+){0,5}$`)

// nameOf returns the code of an error in a stream; it is not empty.
func nameOf(p problem) string { return cmp.Or(p.code(), "error") }

// shown returns a code in parentheses if it is safe to show.
func shown(code string) string {
	if len(code) > 40 || !knownCode.MatchString(code) {
		return ""
	}
	return " (" + code + ")"
}

// permanent are the codes of errors in a stream that a repeated request does not resolve.
var permanent = []string{"invalid_request_error", "authentication_error", "permission_error", "not_found_error", "content_filter",
	"insufficient_quota", "request_too_large"}

func streamError(code, host string) error {
	err := fault.New(fault.Unavailable, "%s reported an error in the stream%s", host, shown(code)).WithHint("check the log of the endpoint")
	if slices.Contains(permanent, code) {
		return err
	}
	return &failure{err, -1}
}

// statusError returns the error for a status. Of the body it shows a code only.
func statusError(response *http.Response, body []byte, host string) error {
	var of struct {
		Error problem `json:"error"`
	}
	_ = json.Unmarshal(body, &of) // not every endpoint sends JSON
	code, status := of.Error.code(), response.StatusCode
	kind, hint := fault.Unavailable, "check the log of the endpoint"
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		kind, hint = fault.Denied, "check tasks.key"
	case status == http.StatusNotFound:
		kind, hint = fault.NotFound, "check that the model in tasks.name exists and that tasks.url is correct"
	case status == http.StatusTooManyRequests:
		kind, hint = fault.Exhausted, "the quota of the endpoint is used up; try again later"
	case status < http.StatusInternalServerError:
		kind, hint = fault.Invalid, "check url, name and max_tokens in tasks; a task with many tools may be too long for the model"
	}
	err := fault.New(kind, "%s returned status %d%s", host, status, shown(code)).WithHint("%s", hint)
	again := status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
	if !again || slices.Contains(permanent, code) {
		return err
	}
	return &failure{err, pauseOf(response.Header.Get("Retry-After"))}
}

// pauseOf reads a Retry-After header; negative if there is none.
func pauseOf(after string) time.Duration {
	if s, err := strconv.Atoi(after); err == nil && s >= 0 {
		return time.Duration(min(s, 3600)) * time.Second
	}
	if t, err := http.ParseTime(after); err == nil {
		return max(0, time.Until(t))
	}
	return -1
}
