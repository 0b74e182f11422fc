package passthrough

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// scheme is the scheme of addresses with a server: upstream://SERVER/ and the server's URI
// or template.
const scheme = "upstream://"

func address(server, uri string) string { return scheme + url.PathEscape(server) + "/" + uri }

// cutAddress splits an address.
func cutAddress(address string) (server, uri string, ok bool) {
	rest, ours := strings.CutPrefix(address, scheme)
	server, uri, found := strings.Cut(rest, "/")
	server, err := url.PathUnescape(server)
	return server, uri, ours && found && err == nil
}

// ResourcePage is one page of the list of resources.
type ResourcePage struct {
	Resources []json.RawMessage `json:"resources"`
	Next      string            `json:"nextCursor,omitempty"`
}

// TemplatePage is one page of the list of templates.
type TemplatePage struct {
	Templates []json.RawMessage `json:"resourceTemplates"`
	Next      string            `json:"nextCursor,omitempty"`
}

// Resources lists the resources of all servers; the cursor is "" or the Next of the
// previous page.
func (g *Aggregator) Resources(ctx context.Context, cursor string) (p ResourcePage, err error) {
	p.Resources, p.Next, err = page(resourceLines(lists(ctx, g, g.resources, cursor == ""), false), cursor)
	return p, err
}

// Templates lists the resource templates of all servers.
func (g *Aggregator) Templates(ctx context.Context, cursor string) (p TemplatePage, err error) {
	p.Templates, p.Next, err = page(resourceLines(lists(ctx, g, g.resources, cursor == ""), true), cursor)
	return p, err
}

func resourceLines(stock map[string][]upstream.Resource, templates bool) (lines []line) {
	type listed struct {
		URI         string `json:"uri,omitempty"`
		Template    string `json:"uriTemplate,omitempty"`
		Name        string `json:"name"`
		Title       string `json:"title,omitempty"`
		Description string `json:"description,omitempty"`
		MIME        string `json:"mimeType,omitempty"`
		Size        int64  `json:"size,omitempty"`
	}
	owners := owners(stock, templates)
	for server, all := range stock {
		for _, r := range all {
			if r.Template != templates {
				continue
			}
			l := listed{Name: r.Name, Title: r.Title, Description: r.Description, MIME: r.MIME, Size: r.Size}
			at := &l.URI
			if templates {
				at = &l.Template
			}
			if *at = r.URI; len(owners[r.URI]) > 1 || strings.HasPrefix(r.URI, scheme) {
				*at = address(server, r.URI)
			}
			lines = append(lines, newLine(server, r.URI, l))
		}
	}
	return sorted(lines)
}

// owners returns the servers that have a URI or template.
func owners(stock map[string][]upstream.Resource, templates bool) map[string][]string {
	all := map[string][]string{}
	for server, list := range stock {
		for _, r := range list {
			if r.Template == templates && !slices.Contains(all[r.URI], server) {
				all[r.URI] = append(all[r.URI], server)
			}
		}
	}
	return all
}

// Contents are the contents of a resource: several for a directory.
type Contents struct {
	Contents []json.RawMessage `json:"contents"`
	From     string            `json:"-"` // the server
}

// Read reads a resource at a URI or an address, which may have tokens, if policy and privacy flows
// allow it.
func (g *Aggregator) Read(ctx context.Context, home *home.Home, gate *redact.Gate, at string) (Contents, error) {
	written := redact.UnescapeTokens(at)
	known, err := gate.Restorer().Match(ctx, written)
	if err != nil {
		return Contents{}, err
	}
	if known == written {
		written, known = at, at
	}
	server, _, err := g.locate(ctx, known)
	if err != nil {
		return Contents{}, err
	}
	uri := written
	if strings.HasPrefix(written, scheme) {
		_, uri, _ = cutAddress(written)
	}
	var parts []tool.Part
	err = g.cfg.Calls.Requester(g.owner(home, gate), "", "").Resource(ctx, server, uri, func(sent string) (err error) {
		uri = sent
		if parts, err = g.connections(server).ReadResource(ctx, server, sent); err != nil {
			return err
		}
		return hold(ctx, parts)
	})
	if err != nil {
		return Contents{}, err
	}
	c := Contents{Contents: []json.RawMessage{}, From: server}
	for _, p := range parts {
		target := p.URI
		if target == uri || target == "" {
			target = at
		}
		c.Contents = append(c.Contents, encodeResource(p, target))
	}
	g.links.record(server, parts)
	return c, nil
}

// locate returns the server of a resource: one that lists it, named it in an answer, has
// a matching template, or is the only one with resources. It does not send a URI to a
// server that may not own it.
func (g *Aggregator) locate(ctx context.Context, at string) (server, uri string, err error) {
	if server, uri, ok := cutAddress(at); ok {
		if !slices.Contains(having(g.now(), hasResources), server) {
			return "", "", fault.New(fault.NotFound, "there is no server %s that has resources", fault.Quoted(server))
		}
		return server, uri, nil
	}
	stock := lists(ctx, g, g.resources, false)
	with := having(g.now(), hasResources)
	found := owners(stock, false)[at]
	if len(found) == 0 {
		found = slices.DeleteFunc(g.links.of(at), func(server string) bool { return !slices.Contains(with, server) })
	}
	if len(found) == 0 {
		found = fitting(stock, at)
	}
	if len(found) == 0 && len(with) == 1 {
		found = with
	}
	switch {
	case len(found) == 1:
		return found[0], at, nil
	case len(found) > 1:
		return "", "", fault.New(fault.Invalid, "%s could be one of several servers", fault.Quoted(at)).
			WithHint("use %s", strings.Join(addresses(found, at), " or "))
	case len(with) == 0:
		return "", "", fault.New(fault.NotFound, "there is no resource %s: no server has any", fault.Quoted(at))
	}
	return "", "", fault.New(fault.NotFound, "no server lists a resource %s", fault.Quoted(at)).
		WithHint("if one has it, write whose it is: %sSERVER/URI", scheme)
}

func addresses(servers []string, uri string) (all []string) {
	for _, s := range servers {
		all = append(all, address(s, uri))
	}
	slices.Sort(all)
	return all
}

// fitting returns the servers with a template that matches a URI.
func fitting(stock map[string][]upstream.Resource, uri string) (servers []string) {
	for server, list := range stock {
		if slices.ContainsFunc(list, func(r upstream.Resource) bool { return r.Template && fits(r.URI, uri) }) {
			servers = append(servers, server)
		}
	}
	return servers
}

// longestTemplate and longestURI limit the comparison.
const longestTemplate, longestURI = 1000, 4000

// expressions matches the variables of a template; those with an operator may match
// several path elements.
var expressions = regexp.MustCompile(`\{([+#./;?&]?)[^{}]*\}`)

// fits reports whether a URI approximately matches a template (RFC 6570), to determine
// its server.
func fits(template, uri string) bool {
	if len(template) > longestTemplate || len(uri) > longestURI {
		return false
	}
	var pattern strings.Builder
	literal := 0
	for _, at := range expressions.FindAllStringSubmatchIndex(template, -1) {
		pattern.WriteString(regexp.QuoteMeta(template[literal:at[0]]))
		if at[2] == at[3] { // no operator
			pattern.WriteString("[^/?#]*")
		} else {
			pattern.WriteString(".*")
		}
		literal = at[1]
	}
	pattern.WriteString(regexp.QuoteMeta(template[literal:]))
	re, err := regexp.Compile("^(?s:" + pattern.String() + ")$")
	return err == nil && re.MatchString(uri)
}

// links records the servers of resources named in answers, which servers need not list.
type links struct {
	mu     sync.Mutex
	owners map[string][]string // by URI
}

// maxLinks is the number of recorded links; then all are dropped.
const maxLinks = 10_000

func (l *links) record(server string, parts []tool.Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		if p.URI == "" || slices.Contains(l.owners[p.URI], server) {
			continue
		}
		if l.owners == nil || len(l.owners) >= maxLinks {
			l.owners = map[string][]string{}
		}
		l.owners[p.URI] = append(l.owners[p.URI], server)
	}
}

func (l *links) of(uri string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.owners[uri])
}
