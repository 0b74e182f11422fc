package openapi

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// resolveServer determines the base URL from the document, unless Source.URL is set.
func (b *builder) resolveServer(r *reader) error {
	list := b.doc.root.get("servers")
	if b.cfg.URL != "" {
		return nil
	}
	one, err := b.cfg.selectServer(list)
	if err != nil {
		return err
	}
	raw := "/" // default in OpenAPI
	if one.v != nil {
		if raw, err = b.cfg.fillVariables(one); err != nil {
			return err
		}
	}
	u, err := absoluteURL(r.base, raw)
	if err != nil {
		return list.errorf("the server %.200q has no usable URL: %s", raw, err).
			WithHint("set url of the server")
	}
	// A local file belongs to the operator; a downloaded document may name only its own
	// host.
	if r.base != nil && !strings.EqualFold(u.Host, r.base.Host) && !b.cfg.isListedHost(u.Host) {
		return list.errorf("the document lies at %s and names a server at %s, where credentials would go", r.base.Host,
			sanitize.Line(u.Host, 100)).
			WithHint("if that is correct, set url of the server to %s", u)
	}
	b.result.base = u.String()
	return nil
}

// selectServer returns the configured server of the document, or the first; an empty
// node if there is none.
func (s *Source) selectServer(list node) (node, error) {
	all := list.items()
	if s.Server == "" {
		if len(all) == 0 {
			return node{}, nil
		}
		return all[0], nil
	}
	var names []string
	for _, one := range all {
		description, at := one.get("description").text(), one.get("url").text()
		if strings.EqualFold(description, s.Server) || at == s.Server {
			return one, nil
		}
		names = append(names, sanitize.Line(at, 100))
	}
	return node{}, list.errorf("there is no server %.100q; it has %s", s.Server, strings.Join(names, ", "))
}

// fillVariables substitutes the variables in the URL of a server.
func (s *Source) fillVariables(one node) (string, error) {
	raw := one.get("url").text()
	for _, name := range placeholders(raw) {
		v := one.get("variables").get(name)
		value, given := s.Variables[name]
		if !given {
			value = v.get("default").text()
		}
		var allowed []string
		for _, item := range v.get("enum").items() {
			allowed = append(allowed, item.text())
		}
		switch {
		case value == "":
			return "", one.errorf("the variable %.60q of the server has no value", name).WithHint("set it under variables of the server")
		case given && len(allowed) > 0 && !slices.Contains(allowed, value):
			return "", v.errorf("the variable %.60q is %.60q; allowed are %s", name, value, sanitize.Line(strings.Join(allowed, ", "), 300))
		}
		raw = strings.ReplaceAll(raw, "{"+name+"}", value)
	}
	return raw, nil
}

// absoluteURL resolves a URL relative to that of the document, if it has one.
func absoluteURL(base *url.URL, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err == nil && base != nil {
		u = base.ResolveReference(u)
	}
	return checkHTTPURL(u, err)
}

// checkHTTPURL returns an error unless the URL is an HTTP URL with a host.
func checkHTTPURL(u *url.URL, err error) (*url.URL, error) {
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, fault.New(fault.Invalid, "it must begin with http:// or https:// and a host")
	}
	return u, nil
}

// isListedHost reports whether the operator lists the host.
func (s *Source) isListedHost(host string) bool {
	return slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// operationServer returns the URL of an operation's own server, or that of its path; ""
// if there is none.
func (s *Source) operationServer(op, item node) (string, error) {
	for _, n := range []node{op, item} {
		if all := n.get("servers").items(); len(all) > 0 {
			raw, err := s.fillVariables(all[0])
			if err != nil {
				return "", err
			}
			u, err := checkHTTPURL(url.Parse(raw))
			if err != nil {
				return "", nil // a relative URL is on the same server
			}
			return u.String(), nil
		}
	}
	return "", nil
}

// targetURL returns the URL of a request.
func (a *API) targetURL(ctx context.Context, doc *compiled, op *operation, q *request) (*url.URL, error) {
	raw := doc.base
	if a.cfg.URL != "" {
		var err error
		if raw, err = a.cfg.Resolve(ctx, "url", a.cfg.URL); err != nil {
			return nil, err
		}
	}
	base, err := checkHTTPURL(url.Parse(raw))
	if err != nil {
		return nil, fault.New(fault.Invalid, "has a url that cannot be used: %s", fault.Message(err))
	}
	if op.server != "" && op.server != doc.base {
		other, err := url.Parse(op.server)
		if err != nil {
			return nil, fault.New(fault.Invalid, "has an operation with an invalid server URL")
		}
		switch {
		case strings.EqualFold(other.Host, base.Host) && a.cfg.URL != "":
		case strings.EqualFold(other.Host, base.Host) || a.cfg.isListedHost(other.Host):
			q.otherHost, base = !strings.EqualFold(other.Host, base.Host), other
		default:
			hint := "to call it there, add the host to hosts of the server"
			if a.cfg.Auth != (Auth{}) || len(a.cfg.Headers) > 0 {
				hint += "; it then gets the credentials too"
			}
			return nil, fault.New(fault.Denied, "has this operation at %s, which is not one of its hosts", sanitize.Line(other.Host, 100)).
				WithHint("%s", hint)
		}
	}
	full := base.Scheme + "://" + base.Host + strings.TrimRight(base.EscapedPath(), "/") + q.path
	queries := slices.DeleteFunc([]string{base.RawQuery, q.pathQuery, joinPairs(q.query, "&")}, func(s string) bool { return s == "" })
	if len(queries) > 0 {
		full += "?" + strings.Join(queries, "&")
	}
	u, err := url.Parse(full)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot be called with these arguments: the URL is invalid")
	}
	return u, nil
}
