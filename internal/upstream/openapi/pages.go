package openapi

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// mostPages are joined at most.
const maxPages = 100

// join follows the links to further pages, and puts all items in one list. What
// is no list stays as it is.
func (a *API) joinPages(ctx context.Context, now *compiled, op *operation, q *request, first *response) (*response, error) {
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
		if last, err = a.sendWithRetry(ctx, now, op, q, next); err != nil {
			return nil, err
		}
		if last.status >= 300 {
			return last, nil
		}
		if json.Unmarshal(last.data, &page) != nil {
			return nil, fault.New(fault.Unavailable, "gave a page that is no list, after %d that were", n)
		}
		if size += len(last.data); size > a.cfg.MaxResponse {
			return nil, ErrTooLarge
		}
		all, page = append(all, page...), nil
	}
	joined := *first
	joined.data = encodeJSON(all)
	return &joined, nil
}

// next is where the Link header says that the next page is; nil if it does not.
func (r *response) nextPage() (*url.URL, error) {
	for _, header := range r.header.Values("Link") {
		for one := range strings.SplitSeq(header, ",") {
			target, params, _ := strings.Cut(strings.TrimSpace(one), ">")
			if !strings.HasPrefix(target, "<") || !hasRelNext(params) {
				continue
			}
			u, err := r.url.Parse(target[1:])
			if err != nil || !strings.EqualFold(u.Host, r.url.Host) || u.Scheme != r.url.Scheme {
				return nil, fault.New(fault.Denied, "has its next page at another host, which is not asked")
			}
			return u, nil
		}
	}
	return nil, nil
}

// isNext looks for rel=next among the parameters of a link.
func hasRelNext(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(name), "rel") {
			return slices.Contains(strings.Fields(strings.ToLower(strings.Trim(strings.TrimSpace(value), `"`))), "next")
		}
	}
	return false
}
