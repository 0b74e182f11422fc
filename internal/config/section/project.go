package section

import (
	"reflect"
	"slices"
	"strings"
)

// Tighten applies the setting of a project, in the struct that p points to, to that of the user in c, and reports
// whether it was as strict or stricter. Projects cannot set a key without the tag project.
func (f Field) Tighten(c, p any) bool {
	to, from := f.of(c), f.of(p)
	switch f.Project {
	case "lower":
		return f.lower(to, from, c)
	case "enable":
		to.SetBool(to.Bool() || from.Bool())
		return from.Bool() || !to.Bool()
	case "disable":
		to.SetBool(to.Bool() && from.Bool())
		return !from.Bool() || to.Bool()
	case "tighten":
		order := strings.Fields(f.tag.Get("allow"))
		if slices.Index(order, from.String()) < slices.Index(order, to.String()) {
			return false
		}
		to.Set(from)
		return true
	case "add":
		to.Set(reflect.AppendSlice(to.Slice(0, to.Len()), from))
		return true
	}
	return false
}

// lower lowers a limit. Without a setting, the value is that of the method WithDefaults of its struct, or else of
// the tag default; a 0 without either is no limit.
func (f Field) lower(to, limit reflect.Value, c any) bool {
	now := to.Int()
	if now == 0 {
		now = f.usual(c)
	}
	l := limit.Int()
	if l == 0 {
		l = f.usual(c)
	}
	if now != 0 && (l == 0 || l > now) {
		return false
	}
	to.SetInt(l)
	return true
}

// usual returns the value of a number without a setting.
func (f Field) usual(c any) int64 {
	last := len(f.index) - 1
	in := reflect.ValueOf(c).Elem().FieldByIndex(f.index[:last])
	if m := in.MethodByName("WithDefaults"); m.IsValid() && m.Type().Out(0) == in.Type() { // not promoted
		return m.Call(nil)[0].Field(f.index[last]).Int()
	}
	v := reflect.New(f.of(c).Type()).Elem()
	if text := f.tag.Get("default"); text != "" && setText(v, f.tag, text, Source{}) == nil {
		return v.Int()
	}
	return 0
}

// SetDefaults sets the fields of the struct that to points to that have a tag default.
func SetDefaults(to any) {
	for _, f := range Fields(to) {
		if text := f.tag.Get("default"); text != "" && !f.Structured {
			if err := f.SetText(to, text, Source{}); err != nil {
				panic("the default of " + f.Name + " " + err.Error())
			}
		}
	}
}
