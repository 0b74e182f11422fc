package network

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/urlpath"
)

// request is a request that a rule allows.
type request struct {
	method  string
	url     *url.URL
	headers http.Header
	body    []byte
	rule    rule
	timeout time.Duration
}

// arguments are the arguments of a call.
type arguments struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	JSON    json.RawMessage   `json:"json"`
	Text    *string           `json:"text"`
	Base64  *string           `json:"base64"`
	Timeout float64           `json:"timeout"` // seconds
}

// Check returns an error if no rule allows the request of a call, or the host of the rule that
// does, as the operator wrote it.
func (r *Rules) Check(c tool.Call) (destination string, err error) {
	q, err := r.request(c)
	if err != nil {
		return "", err
	}
	return q.rule.Host, nil
}

// request returns the request of a call if a rule allows it.
func (r *Rules) request(c tool.Call) (q request, err error) {
	var a arguments
	if err := json.Unmarshal(c.Args, &a); err != nil {
		return q, refuse(c.Ref, "arguments", "the arguments are not those of a request")
	}
	q.method, q.timeout = strings.ToUpper(c.Tool), time.Duration(min(a.Timeout, 3600)*float64(time.Second))
	var wrong string
	if q.url, wrong = parseURL(a.URL); wrong != "" {
		return q, refuse(c.Ref, "url", "the URL %s", wrong)
	}
	if q.rule, wrong = r.find(q.method, q.url); wrong != "" {
		return q, refuse(c.Ref, "allow", "%s. The operator can allow it with network.allow", wrong)
	}
	if q.headers, wrong = parseHeaders(a.Headers, q.url, q.rule.Secret); wrong != "" {
		return q, refuse(c.Ref, "headers", "%s", wrong)
	}
	if wrong = q.parseBody(a); wrong != "" {
		return q, refuse(c.Ref, "arguments", "%s", wrong)
	}
	if name := otherMethod(q.url, q.headers, q.body); name != "" {
		return q, refuse(c.Ref, "allow", "the parameter %s is not allowed, since some servers read another method from it: send the "+
			"method itself", name)
	}
	return q, nil
}

// parseURL returns a URL with a canonical host, or what is wrong with it.
func parseURL(text string) (u *url.URL, wrong string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "":
		return nil, "is not valid: it must be https://HOST/PATH, with spaces and special characters as %XX"
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, "must begin with https:// or http://"
	case u.User != nil:
		return nil, "contains a user or password: use a header"
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return nil, "has a host that " + err.Error()
	}
	if urlpath.DotSegment(u.Path) != "" {
		return nil, "has . or .. in its path: write the path without them"
	}
	port := u.Port()
	if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
		return nil, "has an invalid port"
	}
	u.Host, u.Fragment, u.RawFragment = host, "", ""
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		u.Host = "[" + host + "]"
	}
	if n, _ := strconv.Atoi(port); port != "" && n != (rule{Rule: Rule{Scheme: u.Scheme}}).port() {
		u.Host += ":" + strconv.Itoa(n)
	}
	return u, ""
}

// parseHeaders returns the headers to send with a rule's secret, or what is wrong with them.
func parseHeaders(given map[string]string, u *url.URL, secret *Secret) (h http.Header, wrong string) {
	h = http.Header{}
	size, seen := 0, map[string]bool{}
	for name, value := range given {
		size += len(name) + len(value)
		key, like := http.CanonicalHeaderKey(name), alike(name)
		ignored, own := ownHeaders[like]
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, "the name of a header is not valid in HTTP"
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, "the header " + key + " has a line break or another character that is not valid in HTTP"
		case key == "Host" && !isHostOf(value, u):
			return nil, "the header Host differs from the host of the URL"
		case own && (!ignored || key != like):
			return nil, "the header " + key + " cannot be set: Sandpiper makes the connection"
		case own:
		case overrides(like):
			return nil, "the header " + key + " cannot be set: some servers read another method, URL, host or client from it than those " +
				"that are checked"
		case secret != nil && like == alike(secret.Header) && key != http.CanonicalHeaderKey(secret.Header):
			return nil, "the header " + key + " cannot be set: some servers read it as " + secret.Header + ", which Sandpiper sets"
		case seen[like]:
			return nil, "the header " + key + " is given twice"
		default:
			seen[like] = true
			h.Set(key, value)
		}
	}
	if len(given) > maxHeaders || size > maxHeaderBytes {
		return nil, "the headers are too many or too large"
	}
	return h, ""
}

func isHostOf(value string, u *url.URL) bool {
	return slices.Contains([]string{u.Host, u.Hostname(), u.Hostname() + ":" + strconv.Itoa(portOf(u)),
		"[" + u.Hostname() + "]:" + strconv.Itoa(portOf(u))}, strings.ToLower(value))
}

// parseBody sets the body, and returns what is wrong with it.
func (q *request) parseBody(a arguments) (wrong string) {
	given := 0
	if a.JSON != nil {
		q.body, given = a.JSON, given+1
		if q.headers.Get("Content-Type") == "" {
			q.headers.Set("Content-Type", "application/json")
		}
	}
	if a.Text != nil {
		q.body, given = []byte(*a.Text), given+1
	}
	if a.Base64 != nil {
		var err error
		if q.body, err = base64.StdEncoding.DecodeString(*a.Base64); err != nil {
			return "base64 is not valid"
		}
		given++
	}
	if given > 1 {
		return "json, text and base64 cannot be combined: a request has one body"
	}
	return ""
}
