package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// request is an HTTP request built from arguments.
type request struct {
	path        string // escaped
	pathQuery   string // query in the document's path; "" if none
	query       []pair
	headers     []pair
	cookies     []pair
	body        []byte
	contentType string // of the body; "" without a body
	pages       int    // to fetch and join
	otherHost   bool   // the servers entry of the operation names another host

	hold func(context.Context, int64) error // tool.Call.HoldResult
}

// decode parses the arguments. Objects keep their order and numbers their digits.
func decode(raw json.RawMessage) (schema.Object, error) {
	args, err := schema.DecodeObject(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot be called: the arguments are not a JSON object")
	}
	return args, nil
}

// request builds the request from the arguments. Optional null arguments are omitted; a
// required parameter must not be null, and a required body may be.
func (op *operation) request(args schema.Object) (q *request, err error) {
	q = &request{pages: 1}
	values := map[string]string{}
	for _, p := range op.params {
		v := args.Get(p.arg)
		if v == nil && p.required {
			return nil, fault.New(fault.Invalid, "cannot be called: argument %s is missing", p.arg)
		}
		if v == nil {
			continue
		}
		if err := q.add(p, v, values); err != nil {
			return nil, err
		}
	}
	path, query := splitPath(op.path)
	if q.path, err = expandPath(path, values); err != nil {
		return nil, err
	}
	if query != "" {
		q.pathQuery = fillTemplate(query, values, func(piece string) string {
			parts := strings.Split(piece, "&")
			for i := range parts {
				parts[i] = percentEncode(parts[i], true)
			}
			return strings.Join(parts, "&")
		})
	}
	if x := op.body; x != nil {
		i := slices.IndexFunc(args, func(m schema.Member) bool { return m.Name == x.arg })
		if i < 0 && x.required {
			return nil, fault.New(fault.Invalid, "cannot be called: argument %s is missing", x.arg)
		}
		if v := args.Get(x.arg); i >= 0 && (v != nil || x.required) {
			if q.body, q.contentType, err = x.encode(v); err != nil {
				return nil, err
			}
		}
	}
	if n, ok := args.Get(op.pagesArg).(json.Number); ok && op.pagesArg != "" {
		asked, _ := n.Int64()
		q.pages = int(min(max(1, asked), maxPages))
	}
	return q, nil
}

func (q *request) add(p param, v any, values map[string]string) (err error) {
	switch p.in {
	case "path":
		values[p.name], err = p.path(v)
	case "query":
		q.query = append(q.query, p.query(v)...)
	case "cookie":
		q.cookies = append(q.cookies, p.cookie(v)...)
	case "header":
		var text string
		text, err = p.header(v)
		q.headers = append(q.headers, pair{p.name, text})
	}
	return err
}

// send sends the request, and those for further pages if requested.
func (a *API) send(ctx context.Context, doc *compiled, op *operation, ref tool.Ref, q *request) (tool.Result, error) {
	target, err := a.targetURL(ctx, doc, op, q)
	if err != nil {
		return tool.Result{}, &tool.NotSent{Err: err}
	}
	got, err := a.sendWithRetry(ctx, doc, op, q, target)
	if err != nil {
		return tool.Result{}, err
	}
	if q.pages > 1 && got.status < 300 {
		if got, err = a.joinPages(ctx, doc, op, q, got); err != nil {
			return tool.Result{}, err
		}
	}
	return got.result(op, ref)
}

// response is a response with its body.
type response struct {
	status        int
	header        http.Header
	data          []byte
	url           *url.URL // of the last request, after redirects
	method        string
	authenticated bool // the request contained credentials
	elsewhere     bool // it is that of another method, after a redirect
}

// maxAttempts bounds the attempts of an idempotent request.
const maxAttempts = 3

// sendWithRetry sends a request. After 429 and 503 with Retry-After it retries idempotent
// methods, if the delay is at most maxRetryDelay and ends before the deadline of ctx.
// After 401 for a token obtained with client credentials it sends any method once more
// with a new token: the API did not execute the request.
func (a *API) sendWithRetry(ctx context.Context, doc *compiled, op *operation, q *request, target *url.URL) (*response, error) {
	renewed, effect := false, false
	for try := 1; ; try++ {
		var got *response
		c, err := a.credentials(ctx, doc, op)
		if err != nil {
			err = &tool.NotSent{Err: err}
		} else {
			got, err = a.sendOnce(ctx, op, q, target, c)
		}
		if unsent, ok := errors.AsType[*tool.NotSent](err); ok && effect { // an earlier attempt was sent
			err = unsent.Err
		}
		if err != nil {
			return nil, err
		}
		effect = effect || got.elsewhere || upstream.MayHaveEffect(got.status)
		if got.status == http.StatusUnauthorized && c.token != "" && !renewed && !got.elsewhere {
			a.tokens.drop(c.token)
			renewed = true
			continue
		}
		wait, retry := got.retryDelay()
		if !retry || try >= maxAttempts || !idempotent(op.method) || !time.Now().Add(wait).Before(deadline(ctx)) {
			return got, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// deadline returns the deadline of ctx; without one, a time after any retry delay.
func deadline(ctx context.Context) time.Time {
	if d, ok := ctx.Deadline(); ok {
		return d
	}
	return time.Now().Add(time.Hour)
}

func idempotent(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"}, method)
}

// maxRetryDelay bounds the delay that a server can request.
const maxRetryDelay = 30 * time.Second

// retryDelay reports whether to retry, and after which delay.
func (r *response) retryDelay() (time.Duration, bool) {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0, false
	}
	wait, given := r.retryAfter()
	return wait, given && wait <= maxRetryDelay
}

// retryAfter parses the Retry-After header.
func (r *response) retryAfter() (time.Duration, bool) {
	text := r.header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return time.Duration(min(n, 1<<30)) * time.Second, true
	}
	t, err := http.ParseTime(text)
	return max(0, time.Until(t)), err == nil
}

// sendOnce sends one request and reads the response.
func (a *API) sendOnce(ctx context.Context, op *operation, q *request, target *url.URL, c credentials) (*response, error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := http.NewRequestWithContext(traced, op.method, target.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, &tool.NotSent{Err: fault.New(fault.Invalid, "cannot be called: the document's method or path is not valid in HTTP")}
	}
	if q.contentType == "" {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	} else {
		r.Header.Set("Content-Type", q.contentType)
	}
	r.Header.Set("User-Agent", a.cfg.UserAgent)
	r.Header.Set("Accept", op.accept)
	for _, h := range q.headers {
		r.Header.Set(h.name, h.value)
	}
	if len(q.cookies) > 0 {
		r.Header.Set("Cookie", joinPairs(q.cookies, "; "))
	}
	c.add(r)
	res, err := a.client.Do(r)
	if err = sendError(ctx, err, target, q.otherHost); err != nil && !sent.Load() {
		return nil, &tool.NotSent{Err: err}
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var refused error
	hold := func(ctx context.Context, n int64) error {
		refused = q.hold(ctx, n)
		return refused
	}
	data, err := memory.ReadAll(ctx, hold, res.Body, res.ContentLength, int64(a.cfg.MaxResponse)+1)
	if len(data) > a.cfg.MaxResponse {
		refused = upstream.ErrTooLarge
	}
	switch success := res.StatusCode >= 200 && res.StatusCode <= 299; {
	case refused != nil && success:
		return nil, &tool.NotKept{Err: refused}
	case refused != nil: // the status says enough
		data = nil
	case err != nil:
		return nil, sendError(ctx, err, target, q.otherHost)
	}
	return &response{res.StatusCode, res.Header, data, res.Request.URL, op.method, c.sent, res.Request.Method != op.method}, nil
}
