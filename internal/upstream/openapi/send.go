package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/plain"
)

// request is what arguments make of an operation.
type request struct {
	path    string // escaped
	query   []pair
	headers []pair
	cookies []pair
	body    []byte
	mime    string // of the body; "" for none
	pages   int
}

// decode reads the arguments; numbers keep their digits.
func decode(raw json.RawMessage) (map[string]any, error) {
	args := map[string]any{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return args, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&args); err != nil {
		return nil, fault.New(fault.Invalid, "cannot be called: the arguments are no JSON object")
	}
	return args, nil
}

// request makes the request that the arguments ask for. One that is null is not
// sent.
func (op *operation) request(args map[string]any) (q *request, err error) {
	q = &request{pages: 1}
	values := map[string]string{}
	for _, p := range op.params {
		v := args[p.arg]
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
	if q.path, err = expand(op.path, values); err != nil {
		return nil, err
	}
	if x := op.body; x != nil {
		v, given := args[x.arg]
		if !given && x.required {
			return nil, fault.New(fault.Invalid, "cannot be called: argument %s is missing", x.arg)
		}
		if given && (v != nil || x.required) {
			if q.body, q.mime, err = x.encode(v); err != nil {
				return nil, err
			}
		}
	}
	if n, ok := args[op.pages].(json.Number); ok && op.pages != "" {
		asked, _ := n.Int64()
		q.pages = int(min(max(1, asked), mostPages))
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

// mostPages are joined at most.
const mostPages = 100

// send makes the request, and further ones where several pages are asked for.
func (a *API) send(ctx context.Context, now *api, op *operation, ref tool.Ref, q *request) (tool.Result, error) {
	at, err := a.target(ctx, now, op, q)
	if err != nil {
		return tool.Result{}, err
	}
	got, err := a.ready(ctx, now, op, q, at)
	if err != nil {
		return tool.Result{}, err
	}
	if q.pages > 1 && got.status < 300 {
		if got, err = a.join(ctx, now, op, q, got); err != nil {
			return tool.Result{}, err
		}
	}
	return got.result(a, ref)
}

// reply is an answer, read.
type reply struct {
	status int
	header http.Header
	data   []byte
	at     *url.URL // that was asked
	method string
}

// mostTries of a request that may be repeated.
const mostTries = 3

// ready sends a request until there is an answer that does not say to come again.
// A token that is refused is asked for anew, once: what was refused was not done.
func (a *API) ready(ctx context.Context, now *api, op *operation, q *request, at *url.URL) (*reply, error) {
	renewed := false
	for try := 1; ; try++ {
		c, err := a.credentials(ctx, now, op)
		if err != nil {
			return nil, err
		}
		got, err := a.once(ctx, op, q, at, c)
		if err != nil {
			return nil, err
		}
		if got.status == http.StatusUnauthorized && c.token != "" && !renewed {
			a.tokens.drop(c.token)
			renewed = true
			continue
		}
		wait, again := got.later()
		if !again || try >= mostTries || !idempotent(op.method) || !time.Now().Add(wait).Before(deadline(ctx)) {
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
const longestLater = 30 * time.Second

// later tells whether the answer asks to come again, and when.
func (r *reply) later() (time.Duration, bool) {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0, false
	}
	wait, said := r.after()
	return wait, said && wait <= longestLater
}

// after is what Retry-After says.
func (r *reply) after() (time.Duration, bool) {
	text := r.header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return time.Duration(min(n, 1<<30)) * time.Second, true
	}
	t, err := http.ParseTime(text)
	return max(0, time.Until(t)), err == nil
}

// once sends one request and reads the answer.
func (a *API) once(ctx context.Context, op *operation, q *request, at *url.URL, c credentials) (*reply, error) {
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
	r.Header.Set("User-Agent", a.cfg.Agent)
	r.Header.Set("Accept", op.accept)
	for _, h := range q.headers {
		r.Header.Set(h.name, h.value)
	}
	if len(q.cookies) > 0 {
		r.Header.Set("Cookie", join(q.cookies, "; "))
	}
	c.add(r)
	res, err := a.client.Do(r)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, int64(a.cfg.MaxAnswer)+1))
	switch {
	case err != nil:
		return nil, unanswered(ctx, err)
	case len(data) > a.cfg.MaxAnswer:
		return nil, ErrTooLarge
	}
	return &reply{res.StatusCode, res.Header, data, res.Request.URL, op.method}, nil
}

// elsewhere says that an answer leads to a host that is not ours.
type elsewhere struct{ host string }

func (e *elsewhere) Error() string { return "leads to " + e.host }

var errAround = errors.New("leads around in circles")

// mostRedirects are followed.
const mostRedirects = 5

// redirect follows what stays on the host. Another host that the operator names
// is asked for what can be read, without any credentials.
func (a *API) redirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	same := strings.EqualFold(next.URL.Host, first.URL.Host) && (next.URL.Scheme == first.URL.Scheme || next.URL.Scheme == "https")
	switch {
	case len(before) > mostRedirects:
		return errAround
	case same && next.Method != first.Method && next.Response.StatusCode != http.StatusSeeOther:
		return http.ErrUseLastResponse
	case same:
		return nil
	case !a.cfg.named(next.URL.Host) || first.Method != http.MethodGet && first.Method != http.MethodHead:
		return &elsewhere{next.URL.Host}
	}
	next.Header = http.Header{"Accept": next.Header["Accept"], "User-Agent": next.Header["User-Agent"]}
	return nil
}

// unanswered says why there is no answer. Errors of the network stay as they are,
// so that callers see that nobody was reached.
func unanswered(ctx context.Context, err error) error {
	other, left := errors.AsType[*elsewhere](err)
	dial, isDial := errors.AsType[*net.OpError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case left:
		return fault.New(fault.Denied, "sends us to another host, %s, where its credentials may not go", plain.Line(other.host, 100)).
			WithHint("if it may be asked, write it under hosts in its entry; credentials do not follow a redirect")
	case errors.Is(err, errAround):
		return fault.New(fault.Unavailable, "sends us around in circles")
	case isDial && dial.Op == "dial":
		return dial
	}
	return fault.Wrap(fault.Unavailable, err, "gave no answer that can be read: %s", network(err))
}

// network is an error of the network without addresses and URLs, which may hold
// secrets.
func network(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	whole, isURL := errors.AsType[*url.Error](err)
	switch {
	case isDNS:
		return fmt.Sprintf("there is no host %q", dns.Name)
	case isOp:
		return plain.Line(op.Err.Error(), 200)
	case isURL:
		return plain.Line(whole.Err.Error(), 200)
	}
	return plain.Line(err.Error(), 200)
}

// join follows the links to further pages, and puts all items in one list. What
// is no list stays as it is.
func (a *API) join(ctx context.Context, now *api, op *operation, q *request, first *reply) (*reply, error) {
	var all, page []json.RawMessage
	if json.Unmarshal(first.data, &all) != nil {
		return first, nil
	}
	last, size := first, len(first.data)
	for n := 1; n < q.pages; n++ {
		next, err := last.next()
		if next == nil || err != nil {
			if err != nil {
				return nil, err
			}
			break
		}
		if last, err = a.ready(ctx, now, op, q, next); err != nil {
			return nil, err
		}
		if last.status >= 300 {
			return last, nil
		}
		if json.Unmarshal(last.data, &page) != nil {
			return nil, fault.New(fault.Unavailable, "gave a page that is no list, after %d that were", n)
		}
		if size += len(last.data); size > a.cfg.MaxAnswer {
			return nil, ErrTooLarge
		}
		all, page = append(all, page...), nil
	}
	joined := *first
	joined.data = text(all)
	return &joined, nil
}

// next is where the Link header says that the next page is; nil if it does not.
func (r *reply) next() (*url.URL, error) {
	for _, header := range r.header.Values("Link") {
		for one := range strings.SplitSeq(header, ",") {
			target, params, _ := strings.Cut(strings.TrimSpace(one), ">")
			if !strings.HasPrefix(target, "<") || !isNext(params) {
				continue
			}
			u, err := r.at.Parse(target[1:])
			if err != nil || !strings.EqualFold(u.Host, r.at.Host) || u.Scheme != r.at.Scheme {
				return nil, fault.New(fault.Denied, "has its next page at another host, where its credentials may not go")
			}
			return u, nil
		}
	}
	return nil, nil
}

// isNext looks for rel=next among the parameters of a link.
func isNext(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(name), "rel") {
			return slices.Contains(strings.Fields(strings.ToLower(strings.Trim(strings.TrimSpace(value), `"`))), "next")
		}
	}
	return false
}
