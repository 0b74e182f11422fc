package openapi

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// maxPages bounds the pages of one call.
const maxPages = 100

// joinPages follows the links to further pages and returns all items in one list. A
// response that is not a list is returned unchanged.
func (a *API) joinPages(ctx context.Context, doc *compiled, op *operation, q *request, first *response) (*response, error) {
	var all, page []json.RawMessage
	if json.Unmarshal(first.data, &all) != nil {
		return first, nil
	}
	last, size := first, len(first.data)
	for n := 1; n < q.pages; n++ {
		next, err := last.nextPage()
		if next == nil || err != nil {
			if err != nil {
				return nil, err
			}
			break
		}
		if last, err = a.sendWithRetry(ctx, doc, op, q, next); err != nil {
			return nil, err
		}
		if last.status >= 300 {
			return last, nil
		}
		if json.Unmarshal(last.data, &page) != nil {
			return nil, fault.New(fault.Unavailable, "sent a page that is not a list, after %d pages", n)
		}
		if size += len(last.data); size > a.cfg.MaxResponse {
			return nil, upstream.ErrTooLarge
		}
		all, page = append(all, page...), nil
	}
	joined := *first
	joined.data = encodeJSON(all)
	return &joined, nil
}

// nextPage returns the URL of the next page from the Link header; nil if there is none.
func (r *response) nextPage() (*url.URL, error) {
	for _, header := range r.header.Values("Link") {
		for one := range strings.SplitSeq(header, ",") {
			target, params, _ := strings.Cut(strings.TrimSpace(one), ">")
			if !strings.HasPrefix(target, "<") || !hasRelNext(params) {
				continue
			}
			u, err := r.url.Parse(target[1:])
			if err != nil || !strings.EqualFold(u.Host, r.url.Host) || u.Scheme != r.url.Scheme {
				return nil, fault.New(fault.Denied, "links to a next page at another host, which is not followed")
			}
			return u, nil
		}
	}
	return nil, nil
}

// hasRelNext reports whether the parameters of a link contain rel=next.
func hasRelNext(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(name), "rel") {
			return slices.Contains(strings.Fields(strings.ToLower(strings.Trim(strings.TrimSpace(value), `"`))), "next")
		}
	}
	return false
}
