package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
)

// httpTransport is the streamable HTTP transport. Each request is a POST. Its response
// is a JSON message, or an event stream that contains it.
type httpTransport struct {
	url     string
	token   string // of HTTP; "" means none
	about   Args   // sent with each request of a client of modernVersion; nil otherwise
	client  *http.Client
	session atomic.Pointer[string]
	next    atomic.Int64
}

func newHTTP(url, token string) *httpTransport {
	// A separate connection pool: connections to a killed daemon must not be
	// reused for another one at the same port. One that is idle for longer than the
	// server allows is closed while the next request is sent.
	t := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: http.DefaultTransport.(*http.Transport).IdleConnTimeout}
	return &httpTransport{url: url, token: token, client: &http.Client{Transport: t}}
}

func (h *httpTransport) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id := h.next.Add(1)
	if h.about != nil {
		params = withMeta(params, h.about)
	}
	resp, err := h.post(ctx, message{ID: id, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return nil, fmt.Errorf("%s: HTTP %s: %s", method, resp.Status, text)
	}
	if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
		h.session.Store(&s)
	}
	m, err := h.find(resp, id)
	if err != nil {
		return nil, err
	}
	return m.outcome()
}

// find returns the response to the request id.
func (h *httpTransport) find(resp *http.Response, id int64) (m message, err error) {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
			return m, errors.Join(ErrGone, err)
		}
		return m, nil
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if m = (message{}); ok && json.Unmarshal(data, &m) == nil && m.ID == id {
			return m, nil
		}
	}
	return m, errors.Join(ErrGone, lines.Err())
}

func (h *httpTransport) notify(ctx context.Context, method string) error {
	resp, err := h.post(ctx, message{Method: method})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (h *httpTransport) post(ctx context.Context, m message) (*http.Response, error) {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	h.authorize(req)
	if s := h.session.Load(); s != nil {
		req.Header.Set("Mcp-Session-Id", *s)
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	if h.about != nil {
		req.Header.Set("Mcp-Protocol-Version", modernVersion)
		req.Header.Set("Mcp-Method", m.Method)
		req.Header.Set("Mcp-Name", target(m.Params))
	}
	resp, err := h.client.Do(req)
	if err != nil && ctx.Err() == nil {
		return nil, errors.Join(ErrGone, err)
	}
	return resp, err
}

// modernVersion is a protocol version without a handshake: each request describes its client.
const modernVersion = "2026-07-28"

func withMeta(params any, about Args) Args {
	all := Args{"_meta": about}
	if given, ok := params.(Args); ok {
		maps.Copy(all, given)
	}
	return all
}

// target returns the tool or task that a request is about, which is also in a header.
func target(params any) string {
	given, _ := params.(Args)
	for _, key := range []string{"name", "taskId"} {
		if s, ok := given[key].(string); ok {
			return s
		}
	}
	return ""
}

func (h *httpTransport) authorize(req *http.Request) {
	if h.token != "" {
		req.Header.Set("Authorization", "Bearer "+h.token)
	}
}

// close also ends the session at the daemon, if it is running.
func (h *httpTransport) close() error {
	defer h.client.CloseIdleConnections()
	s := h.session.Load()
	if s == nil {
		return nil
	}
	req, err := http.NewRequest(http.MethodDelete, h.url, nil)
	if err != nil {
		return err
	}
	h.authorize(req)
	req.Header.Set("Mcp-Session-Id", *s)
	if resp, err := h.client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
	return nil
}
