package passthrough

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// names maps names to the tools or prompts of several servers.
//
// Each item claims two names, its own and SERVER_NAME. It is listed by its own name if no
// other item claims that, else by SERVER_NAME, else by that with a hash. A name claimed
// by several items belongs to none: otherwise a new or changed server could put another
// tool behind a name that a user has allowed a client to use. Both unclaimed names are
// accepted in calls, so SERVER_NAME is stable. The result does not depend on any order.
type names struct {
	shown  map[tool.Ref]string
	claims map[string][]tool.Ref // by name; a name with one claim is accepted
}

func newNames(all []tool.Ref, tidy func(string) string) names {
	n := names{map[tool.Ref]string{}, map[string][]tool.Ref{}}
	for _, r := range all {
		own, long := tidy(r.Tool), tidy(r.Server+"_"+r.Tool)
		if slices.Contains(n.claims[own], r) {
			continue // a duplicate
		}
		n.claims[own] = append(n.claims[own], r)
		if long != own {
			n.claims[long] = append(n.claims[long], r)
		}
	}
	var left []tool.Ref
	for _, r := range all {
		own, long := tidy(r.Tool), tidy(r.Server+"_"+r.Tool)
		switch {
		case len(n.claims[own]) == 1:
			n.shown[r] = own
		case len(n.claims[long]) == 1:
			n.shown[r] = long
		default:
			left = append(left, r)
		}
	}
	slices.SortFunc(left, func(a, b tool.Ref) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Tool, b.Tool))
	})
	for _, r := range left {
		name := ""
		for i := 0; name == "" || n.claims[name] != nil; i++ {
			name = cut(tidy(r.Server+"_"+r.Tool), r.Server+"\x00"+r.Tool+"\x00"+strconv.Itoa(i))
		}
		n.shown[r], n.claims[name] = name, []tool.Ref{r}
	}
	return n
}

// find returns the item with a name; kind is the noun for errors.
func (n names) find(kind, name string) (tool.Ref, error) {
	several := n.claims[name]
	switch len(several) {
	case 0:
	case 1:
		return several[0], nil
	default:
		var shown []string
		for _, r := range several {
			shown = append(shown, n.shown[r])
		}
		slices.Sort(shown)
		return tool.Ref{}, fault.New(fault.NotFound, "%s could be one of several %ss: use %s", fault.Quoted(name), kind,
			strings.Join(shown, " or "))
	}
	e := fault.New(fault.NotFound, "there is no %s %s", kind, fault.Quoted(name))
	if near := fault.Nearest(name, slices.Sorted(maps.Values(n.shown)), 1); near != nil {
		return tool.Ref{}, e.WithHint("did you mean %s?", near[0])
	}
	return tool.Ref{}, e.WithHint("%ss/list says which there are", kind)
}

// longest is the maximum length of a tool name in clients that use it as a function name:
// ^[a-zA-Z0-9_-]{1,64}$.
const longest = 64

// plain converts a name to one that such clients accept.
func plain(name string) string {
	tidy := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if len(tidy) > longest {
		return cut(tidy, name)
	}
	return tidy
}

// cut truncates a name and appends a hash of the full name.
func cut(name, of string) string {
	const digits = 8
	sum := sha256.Sum256([]byte(of))
	return name[:min(len(name), longest-digits-1)] + "_" + hex.EncodeToString(sum[:digits/2])
}

// asItIs is the conversion of names that no client restricts.
func asItIs(name string) string { return name }
