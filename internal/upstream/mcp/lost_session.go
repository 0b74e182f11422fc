package mcp

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// maxRefusal is the size of the longest body that is read to find out why a request was refused.
const maxRefusal = 16 << 10

// lostSession reports whether a response means that the server does not know the session of the
// request, which it has not executed then: any 404, whatever its body is, and a 400 that names the
// session, as servers made from the examples of the TypeScript SDK and older Python SDKs answer. Such
// a refusal does not answer the request itself, which a tool's own error does.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func lostSession(r *http.Request, res *http.Response, id int64, events bool) bool {
	if r.Method != http.MethodPost || r.Header.Get("Mcp-Session-Id") == "" && !events {
		return false
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		return true
	case http.StatusBadRequest:
	default:
		return false
	}
	start, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	res.Body = &joinedBody{io.MultiReader(bytes.NewReader(start), res.Body), res.Body}
	if err != nil {
		return false
	}
	if m, ok := parseEnvelope(start); ok && (m.Result != nil || id != 0 && m.id() == id) {
		return false
	}
	text := strings.ToLower(string(start))
	return strings.Contains(text, "session") || strings.Contains(text, "server not initialized")
}

// joinedBody is a body of which the beginning was read.
type joinedBody struct {
	io.Reader
	io.Closer
}
