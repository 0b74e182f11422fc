package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Differences describes in which ways values of type o do not have type t: another kind, or a
// missing field that no value of t lacks. Additional fields are no difference. root names the
// value.
func (t Type) Differences(root string, o Type) []string {
	if len(t.Kinds) == 0 || len(o.Kinds) == 0 { // nothing is known, as of the items of []
		return nil
	}
	for _, kind := range o.Kinds {
		if !slices.Contains(t.Kinds, kind) && !(kind == "integer" && slices.Contains(t.Kinds, "number")) {
			return []string{fmt.Sprintf("%s is %s, expected %s", root, strings.Join(o.Kinds, " or "), strings.Join(t.Kinds, " or "))}
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		field, has := o.Fields[name]
		switch {
		case has && field.Optional && !t.Fields[name].Optional:
			all = append(all, fmt.Sprintf("%s.%s is missing in some objects", root, name))
		case has:
			all = append(all, t.Fields[name].Differences(root+"."+name, field.Type)...)
		case o.Fields != nil && !t.Fields[name].Optional:
			all = append(all, fmt.Sprintf("%s.%s is missing", root, name))
		}
	}
	if t.Items != nil && o.Items != nil {
		all = append(all, t.Items.Differences(root+"[]", *o.Items)...)
	}
	if t.Dict != nil && o.Dict != nil {
		all = append(all, t.Dict.Differences(root+"{}", *o.Dict)...)
	}
	return all
}
