package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// request is what arguments make of an operation.
type request struct {
	path      string // escaped
	pathQuery string // the query that the document's path has; "" if none
	query     []pair
	headers   []pair
	cookies   []pair
	body      []byte
	mime      string // of the body; "" for none
	pages     int
	otherHost bool // it goes to a server of the operation's own, at another host
}

// decode reads the arguments; objects keep their order and numbers their digits.
func decode(raw json.RawMessage) (schema.Object, error) {
	args, err := schema.DecodeObject(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot be called: the arguments are no JSON object")
	}
	return args, nil
}

// request makes the request that the arguments ask for. One that is null is not
// sent.
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
	steps, fixed := splitPath(op.path)
	if q.path, err = expandPath(steps, values); err != nil {
		return nil, err
	}
	if fixed != "" {
		q.pathQuery = fillTemplate(fixed, values, func(piece string) string {
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
			if q.body, q.mime, err = x.encode(v); err != nil {
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

// send makes the request, and further ones where several pages are asked for.
func (a *API) send(ctx context.Context, now *compiled, op *operation, ref tool.Ref, q *request) (tool.Result, error) {
	at, err := a.targetURL(ctx, now, op, q)
	if err != nil {
		return tool.Result{}, err
	}
	got, err := a.sendWithRetry(ctx, now, op, q, at)
	if err != nil {
		return tool.Result{}, err
	}
	if q.pages > 1 && got.status < 300 {
		if got, err = a.joinPages(ctx, now, op, q, got); err != nil {
			return tool.Result{}, err
		}
	}
	return got.result(op, ref)
}

// reply is an answer, read.
type response struct {
	status        int
	header        http.Header
	data          []byte
	url           *url.URL // that was asked
	method        string
	authenticated bool // credentials were sent
}

// mostTries of a request that may be repeated.
const maxAttempts = 3

// ready sends a request until there is an answer that does not say to come again.
// A token that is refused is asked for anew, once: what was refused was not done.
func (a *API) sendWithRetry(ctx context.Context, now *compiled, op *operation, q *request, at *url.URL) (*response, error) {
	renewed := false
	for try := 1; ; try++ {
		c, err := a.credentials(ctx, now, op)
		if err != nil {
			return nil, err
		}
		got, err := a.sendOnce(ctx, op, q, at, c)
		if err != nil {
			return nil, err
		}
		if got.status == http.StatusUnauthorized && c.token != "" && !renewed {
			a.tokens.drop(c.token)
			renewed = true
			continue
		}
		wait, again := got.retryDelay()
		if !again || try >= maxAttempts || !idempotent(op.method) || !time.Now().Add(wait).Before(deadline(ctx)) {
			return got, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func deadline(ctx context.Context) time.Time {
	if d, ok := ctx.Deadline(); ok {
		return d
	}
	return time.Now().Add(time.Hour)
}

func idempotent(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"}, method)
}

// longestLater is how long a server may have us wait.
const maxRetryDelay = 30 * time.Second

// later tells whether the answer asks to come again, and when.
func (r *response) retryDelay() (time.Duration, bool) {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0, false
	}
	wait, said := r.retryAfter()
	return wait, said && wait <= maxRetryDelay
}

// after is what Retry-After says.
func (r *response) retryAfter() (time.Duration, bool) {
	text := r.header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return time.Duration(min(n, 1<<30)) * time.Second, true
	}
	t, err := http.ParseTime(text)
	return max(0, time.Until(t)), err == nil
}

// once sends one request and reads the answer.
func (a *API) sendOnce(ctx context.Context, op *operation, q *request, at *url.URL, c credentials) (*response, error) {
	u := *at
	r, err := http.NewRequestWithContext(ctx, op.method, u.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot be called: the document's method or path is none of HTTP")
	}
	if q.mime == "" {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	} else {
		r.Header.Set("Content-Type", q.mime)
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
	if err != nil {
		return nil, sendError(ctx, err, at, q.otherHost)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, int64(a.cfg.MaxResponse)+1))
	switch {
	case err != nil:
		return nil, sendError(ctx, err, at, q.otherHost)
	case len(data) > a.cfg.MaxResponse:
		return nil, ErrTooLarge
	}
	return &response{res.StatusCode, res.Header, data, res.Request.URL, op.method, c.sent}, nil
}
