package codegen

import (
	"net/url"
	"strconv"
	"strings"
)

// ref returns the type of a reference within the document and caches it. A
// recursive reference yields a shallow type, an external or dangling one Any.
func (r *reader) ref(ref, hint string, depth int) typ {
	if t, ok := r.refs[ref]; ok {
		return t
	}
	target := r.target(ref)
	if r.open[ref] {
		if o, ok := target.(*object); ok {
			return r.shallowType(o)
		}
		return anything
	}
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		hint = ref[i+1:]
	}
	r.open[ref] = true
	t := r.typ(target, hint, depth+1)
	delete(r.open, ref)
	r.refs[ref] = t
	return t
}

// target returns the schema that a reference points to, or nil.
func (r *document) target(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' || len(path) > 1000 {
		return nil
	}
	at := r.root
	for path != "" {
		var key string
		key, path, _ = strings.Cut(path[1:], "/")
		if path != "" {
			path = "/" + path
		}
		if k, err := url.PathUnescape(key); err == nil {
			key = k
		}
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch v := at.(type) {
		case *object:
			at = v.at(key)
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}
