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

// names are how the things of several servers are called.
//
// Each claims two names, its own and SERVER_NAME. It is shown by its own if nobody
// else claims that, else by SERVER_NAME, else by that and a hash. A name that
// several claim is none of theirs: if one kept it, a server that is added or
// changes could put another tool behind a name that somebody has allowed a client
// to use. Both names that are nobody else's are understood, so that who wants names
// that stay can say SERVER_NAME. None of it depends on any order.
type names struct {
	shown  map[tool.Ref]string
	claims map[string][]tool.Ref // by name; those of one are understood
}

func newNames(all []tool.Ref, tidy func(string) string) names {
	n := names{map[tool.Ref]string{}, map[string][]tool.Ref{}}
	for _, r := range all {
		own, long := tidy(r.Tool), tidy(r.Server+"_"+r.Tool)
		if slices.Contains(n.claims[own], r) {
			continue // it was said twice
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

// find returns what is called name; kind is what such things are.
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
		return tool.Ref{}, fault.New(fault.NotFound, "%.100q could be one of several %ss: use %s", name, kind, strings.Join(shown, " or "))
	}
	e := fault.New(fault.NotFound, "there is no %s %.100q", kind, name)
	if near := fault.Nearest(name, slices.Sorted(maps.Values(n.shown)), 1); near != nil {
		return tool.Ref{}, e.WithHint("did you mean %s?", near[0])
	}
	return tool.Ref{}, e.WithHint("%ss/list says which there are", kind)
}

// longest is what a tool's name may have in clients that hand it to a model as
// the name of a function: ^[a-zA-Z0-9_-]{1,64}$.
const longest = 64

// plain makes a name one that such clients take.
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

// cut ends a name in a hash of what it stands for.
func cut(name, of string) string {
	const digits = 8
	sum := sha256.Sum256([]byte(of))
	return name[:min(len(name), longest-digits-1)] + "_" + hex.EncodeToString(sum[:digits/2])
}

// asItIs is for names that no client restricts.
func asItIs(name string) string { return name }
