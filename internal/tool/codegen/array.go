package codegen

import "encoding/json"

// maxTuple is the maximum number of items of a tuple.
const maxTuple = 12

// array is the type of an array: a list, or a tuple if each place has a type of
// its own and nothing may follow. A result, which was JSON, has lists only.
func (r *reader) array(o *object, hint string, depth int) typ {
	places, ok := o.at("prefixItems").([]any)
	rest := o.at("items")
	if old, draft7 := rest.([]any); !ok && draft7 {
		places, rest = old, o.at("additionalItems")
	}
	if len(places) == 0 {
		return r.list(r.typ(rest, hint+"_item", depth+1))
	}
	types := make([]typ, min(len(places), maxTuple+1))
	var t typ
	for i := range types {
		types[i] = r.typ(places[i], hint+"_item", depth+1)
		t = t.or(types[i])
	}
	ends := rest == false || number(o.at("maxItems")) == len(places)
	switch {
	case ends && !r.result && len(places) <= maxTuple:
		return r.tuple(types)
	case len(places) > maxTuple:
		t = anything
	case !ends:
		t = t.or(r.typ(rest, hint+"_item", depth+1))
	}
	return r.list(t)
}

func (r *reader) tuple(types []typ) typ {
	var places []alternative
	for _, t := range types {
		places = append(places, alternative{expr: t.expr(r.names), brief: t.brief()})
	}
	brief := "tuple[" + list(places, alternative.short) + "]"
	if len(brief) > maxBriefLen {
		brief = "tuple[Any, ...]"
	}
	return single(r.names.use("tuple")+"["+list(places, alternative.full)+"]", brief)
}

// number returns an integer from 0 to 1000, or -1 for any other value.
func number(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return -1
	}
	i, err := n.Int64()
	if err != nil || i < 0 || i > 1000 {
		return -1
	}
	return int(i)
}
