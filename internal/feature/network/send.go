package network

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// send sends a request and returns the response as the result of its call.
func (c *Client) send(ctx context.Context, call tool.Call, q request) (tool.Result, error) {
	if q.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.timeout)
		defer cancel()
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := http.NewRequestWithContext(traced, q.method, q.url.String(), bytes.NewReader(q.body))
	if err != nil {
		return tool.Result{}, refuse(call.Ref, "url", "the request is not valid in HTTP")
	}
	r.Header = q.headers
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	if s := q.rule.Secret; s != nil {
		value, err := c.cfg.Resolve(ctx, s.Header, s.Value)
		if err != nil {
			return tool.Result{}, failed(call.Ref, false, "the secret for %s has no value: %s", q.rule.Host, fault.Message(err))
		}
		r.Header.Set(s.Header, value)
	}
	res, err := c.transport(q.rule).RoundTrip(r)
	if err != nil {
		return tool.Result{}, sendError(ctx, call.Ref, q, sent.Load(), err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 599 { // 101 ends HTTP on the connection
		return tool.Result{}, failed(call.Ref, true, "%s answered with status %d, which is no answer to a request", q.url.Host,
			res.StatusCode)
	}
	result, err := c.read(ctx, call, q, res)
	outcome := outcomeOf(q.method, res.StatusCode)
	switch _, refused := errors.AsType[*fault.Error](err); {
	case err == nil:
		result.Outcome = outcome
	case refused && res.StatusCode < 400:
		err = &tool.NotKept{Err: err}
	case refused: // the status says enough
		f := failed(call.Ref, true, "%s answered with status %d, and its body could not be kept: %s", q.url.Host, res.StatusCode,
			fault.Message(err))
		f.Status, f.Unknown, f.Retryable = res.StatusCode, outcome == tool.Unknown, false
		err = f
	default:
		err = sendError(ctx, call.Ref, q, true, err)
	}
	return result, err
}

// outcomeOf returns the outcome of a request that was answered with an error; "" if it is none.
// Redirects are answers: the next request is a call of its own.
func outcomeOf(method string, status int) string {
	switch repeatable := reads(method) || method == http.MethodPut || method == http.MethodDelete; {
	case status < 400:
		return ""
	case !repeatable && upstream.MayHaveEffect(status):
		return tool.Unknown
	}
	return tool.Failed
}

// response is the structured content of a result.
type response struct {
	Status  int             `json:"status"`
	Reason  string          `json:"reason,omitempty"`
	URL     string          `json:"url"`
	Headers [][2]string     `json:"headers"`
	Text    *string         `json:"text,omitempty"`
	File    json.RawMessage `json:"file,omitempty"`
}

// read reads the body. One that is not UTF-8 becomes a part of the result.
func (c *Client) read(ctx context.Context, call tool.Call, q request, res *http.Response) (tool.Result, error) {
	a := response{Status: res.StatusCode, URL: q.url.String(), Reason: sanitize.Line(http.StatusText(res.StatusCode), 100)}
	body, decoded, err := decode(res)
	if err != nil {
		return tool.Result{}, err
	}
	a.Headers = headersOf(res.Header, decoded)
	limit := maxMemory
	if call.Store == nil || c.cfg.Spool == nil {
		limit = maxUnstored
	}
	declared := res.ContentLength
	if decoded {
		declared = -1
	}
	data, err := memory.ReadAll(ctx, call.HoldResult, body, declared, int64(limit)+1)
	if err != nil {
		return tool.Result{}, err
	}
	var result tool.Result
	switch {
	case len(data) > limit && limit == maxUnstored:
		return result, tooLarge(maxUnstored)
	case len(data) > limit:
		if a.File, err = c.store(ctx, call, data, body); err != nil {
			return result, err
		}
	case utf8.Valid(data):
		text := string(data)
		a.Text = &text
	default:
		result.Parts = []tool.Part{{Kind: tool.Blob, Data: data, MIME: sanitize.Line(res.Header.Get("Content-Type"), 100), URI: a.URL}}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err = enc.Encode(a)
	result.Structured = bytes.TrimSpace(b.Bytes())
	return result, err
}

// store stores a large body, of which data is the beginning, in the workspace.
func (c *Client) store(ctx context.Context, call tool.Call, data []byte, rest io.Reader) (json.RawMessage, error) {
	file := c.cfg.Spool.Create()
	if file == nil {
		return nil, fault.New(fault.Unavailable, "cannot store a body of more than %d bytes", len(data))
	}
	defer file.Close()
	n, err := io.Copy(file, io.MultiReader(bytes.NewReader(data), io.LimitReader(rest, int64(maxBody-len(data)+1))))
	if err != nil {
		return nil, err
	}
	if n > maxBody {
		return nil, tooLarge(maxBody)
	}
	content, err := file.Content()
	if err != nil {
		return nil, err
	}
	return call.Store(ctx, content)
}

func tooLarge(limit int) error {
	return fault.New(fault.Exhausted, "received a response of more than %d bytes, after decompression", limit).
		WithHint("request less data at once, such as a page or a range")
}

// decode returns the decompressed body.
func decode(res *http.Response) (body io.Reader, decoded bool, err error) {
	if res.Request.Method == http.MethodHead || res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified {
		return http.NoBody, false, nil
	}
	switch strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))) {
	case "gzip", "x-gzip":
		body, err = gzip.NewReader(res.Body)
	case "deflate":
		body, err = zlib.NewReader(res.Body)
	default: // not requested
		return res.Body, false, nil
	}
	if err == io.EOF { // an empty body
		return http.NoBody, true, nil
	}
	return body, true, err
}

// headersOf returns the headers of a response, sorted by name, without those of the connection.
func headersOf(h http.Header, decoded bool) [][2]string {
	all := [][2]string{}
	for name, values := range h {
		if name == "Connection" || name == "Keep-Alive" || name == "Transfer-Encoding" ||
			decoded && (name == "Content-Encoding" || name == "Content-Length") {
			continue
		}
		for _, v := range values {
			all = append(all, [2]string{name, strings.ToValidUTF8(v, "\uFFFD")})
		}
	}
	slices.SortStableFunc(all, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return all
}

// failed returns the error of a request that was not sent, or that was sent and not answered.
func failed(ref tool.Ref, sent bool, format string, args ...any) *tool.Failure {
	f := &tool.Failure{Ref: ref, Message: fmt.Sprintf(format, args...), Unknown: sent && !reads(strings.ToUpper(ref.Tool))}
	f.NotMade = !sent
	f.Retryable = !f.Unknown
	return f
}

// sendError describes the error of a request.
func sendError(ctx context.Context, ref tool.Ref, q request, sent bool, err error) error {
	host := q.url.Host
	_, private := errors.AsType[errAddress](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	network, isNetwork := errors.AsType[*net.OpError](err)
	certificate, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	timeout, isTimeout := errors.AsType[net.Error](err)
	switch {
	case private:
		return refuse(ref, "address", "%s resolves to an address that is not public. The operator can list it in addresses of its "+
			"network.allow rule", q.url.Hostname())
	case q.timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
		f := failed(ref, sent, "%s did not respond completely within %s", host, q.timeout.Round(time.Millisecond))
		f.Data = json.RawMessage(`{"timeout":true}`)
		return f
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isDNS:
		return failed(ref, sent, "the host %.100q was not found", dns.Name)
	case isCertificate:
		return failed(ref, sent, "the certificate of %s is not valid: %s", host, sanitize.Line(certificate.Err.Error(), 200))
	case isNetwork:
		return failed(ref, sent, "%s cannot be reached: %s", host, network.Err)
	case isTimeout && timeout.Timeout():
		return failed(ref, sent, "%s did not respond in time", host)
	}
	return failed(ref, sent, "the request to %s failed: %s", host, sanitize.Line(err.Error(), 200))
}
