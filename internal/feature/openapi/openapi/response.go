package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// result converts a response to a tool result.
func (r *response) result(op *operation, ref tool.Ref) (tool.Result, error) {
	if r.status < 200 || r.status > 299 {
		return tool.Result{}, r.failure(op, ref)
	}
	if len(r.data) == 0 || r.status == http.StatusNoContent || r.status == http.StatusResetContent {
		return tool.Result{}, nil
	}
	mime := mediaType(r.header.Get("Content-Type"))
	switch form := formOf(mime); {
	case isJSON(mime), mime == "" && json.Valid(r.data):
		return r.json()
	case (form == asText || form == asForm || mime == "") && utf8.Valid(r.data):
		return tool.Result{Parts: []tool.Part{{Kind: tool.Text, Text: string(r.data), MIME: textIfUnset(mime)}}}, nil
	case strings.HasPrefix(mime, "image/"):
		return tool.Result{Parts: []tool.Part{{Kind: tool.Image, Data: r.data, MIME: mime}}}, nil
	case strings.HasPrefix(mime, "audio/"):
		return tool.Result{Parts: []tool.Part{{Kind: tool.Audio, Data: r.data, MIME: mime}}}, nil
	}
	return tool.Result{Parts: []tool.Part{{Kind: tool.Blob, Data: r.data, MIME: sanitize.Line(mime, 100)}}}, nil
}

func textIfUnset(mime string) string {
	if mime == "" {
		return "text/plain"
	}
	return mime
}

// json returns an object as structured content. Other values, and those nested too
// deeply, become a JSON text part, which is decoded later.
func (r *response) json() (tool.Result, error) {
	data := bytes.TrimPrefix(r.data, []byte("\xef\xbb\xbf"))
	if !json.Valid(data) {
		return tool.Result{}, fault.New(fault.Unavailable, "sent invalid JSON: %s", sanitize.Line(beginning(data), 100))
	}
	text := tool.Result{Parts: []tool.Part{{Kind: tool.Text, Text: string(data), MIME: "application/json"}}}
	if v, _ := text.Value(); v[0] == '{' {
		return tool.Result{Structured: v}, nil
	}
	return text, nil
}

func beginning(data []byte) string { return string(data[:min(len(data), 400)]) }

// failure converts an error response to an error.
func (r *response) failure(op *operation, ref tool.Ref) error {
	f := &tool.Failure{Ref: ref, Message: strings.TrimSpace(fmt.Sprintf("answered %d %s", r.status, http.StatusText(r.status))),
		Status:  r.status,
		Unknown: r.elsewhere || upstream.MayHaveEffect(r.status), Retryable: r.status == http.StatusTooManyRequests && !r.elsewhere}
	if text := r.errorText(); text != "" {
		f.Message += ": " + text
	}
	wait, later := r.retryAfter()
	if later {
		f.Later = wait
	}
	switch {
	case r.status == http.StatusUnauthorized && r.authenticated:
		f.Message += " (the API rejected the configured credentials)"
	case r.status == http.StatusUnauthorized && op.noAuth:
		f.Message += " (no credentials were sent, because the document declares that this operation needs none)"
	case r.status == http.StatusUnauthorized:
		f.Message += " (no credentials are configured for it: see auth in docs/openapi.md)"
	case later:
		f.Message += fmt.Sprintf(" (retry in %s)", wait.Round(time.Second))
	case r.status >= 300 && r.status < 400:
		f.Message += " (a redirect, which is not followed for this method)"
	}
	if len(r.data) <= maxData && isJSON(r.header.Get("Content-Type")) && json.Valid(r.data) {
		f.Data = r.data
	}
	return f
}

const (
	maxData      = 8 << 10 // bytes of an error's JSON
	maxErrorText = 500     // bytes of its message
)

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// errorText returns the error message in the body, if there is one.
func (r *response) errorText() string {
	mime := mediaType(r.header.Get("Content-Type"))
	switch {
	case isJSON(mime):
		var v any
		dec := json.NewDecoder(bytes.NewReader(r.data))
		dec.UseNumber()
		if dec.Decode(&v) == nil {
			return sanitize.Line(errorMessage(v), maxErrorText)
		}
	case strings.Contains(mime, "html"):
		if m := title.FindStringSubmatch(beginning(r.data)); m != nil {
			return sanitize.Line(m[1], 200)
		}
		return ""
	}
	if !utf8.Valid(r.data) {
		return ""
	}
	return sanitize.Line(string(r.data[:min(len(r.data), 4*maxErrorText)]), maxErrorText)
}

// messageKeys are keys with error messages in common APIs, detailKeys those with
// details.
var (
	messageKeys = []string{"message", "error_description", "detail", "error", "title", "msg", "description", "reason"}
	detailKeys  = []string{"errors", "details", "violations", "fields"}
)

// errorMessage returns the message in an error's JSON, or all of the JSON.
func errorMessage(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return scalarText(v)
	}
	text := ""
	for _, key := range messageKeys {
		if inner, ok := m[key].(map[string]any); ok {
			text = errorMessage(inner)
		} else if s, ok := m[key].(string); ok {
			text = s
		}
		if text != "" {
			break
		}
	}
	if text == "" {
		return string(encodeJSON(m))
	}
	for _, key := range detailKeys {
		if !isEmpty(m[key]) {
			return text + " " + string(encodeJSON(m[key]))
		}
	}
	return text
}
