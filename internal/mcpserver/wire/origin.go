package wire

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// originHeader passes the URL of the server, as the client knows it, to its handlers.
const originHeader = "Sandpiper-Origin"

// noteOrigin sets that header. A proxy that ends TLS states it in X-Forwarded-Proto; a client that
// claims it changes only the links in its own answers.
func noteOrigin(r *http.Request) {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	r.Header.Set(originHeader, scheme+"://"+r.Host)
}

// originOf returns the URL of the server, without a slash at its end; "" if the client is not
// connected over HTTP.
func originOf(req mcp.Request) string {
	if x := req.GetExtra(); x != nil {
		return x.Header.Get(originHeader)
	}
	return ""
}
