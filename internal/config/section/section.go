// Package section reads settings into structs. The fields of a struct that have the tag key are keys of the
// configuration:
//
//	type Background struct {
//		Keep    time.Duration `key:"keep" default:"24h" project:"lower"`
//		Running int           `key:"running,restart" range:"1 4096"`
//	}
//
// These are the tags of a field:
//
//	key      its name, then "tenant" if a tier or a tenant may set it, "restart" if a running daemon keeps
//	         it, "short" if a text in place of its section is its value, and "nonempty" for a text of an entry
//	         that must not be empty
//	allow    the values of a text, the loosest first
//	range    the least and the most number, or time
//	form     how a value is read. Of a text: text (on one line, may be empty), path, url, address (an URL or a
//	         reference to it), reference (to a secret), secret (a text with a reference). Of a time: age (or never, which is 0). Of a number:
//	         megabytes, megabytes or never. Of a list: one or more (one text is a list of it)
//	alias    the whole name of a key that former systems have for it
//	default  the value if there is no setting; limits of projects are compared with it
//	project  the changes that files of a project may make: lower (a limit), enable, disable, tighten (choose a later
//	         one of allow), add (to a list), done (it is merged elsewhere); without it, nothing
//
// A text without allow and form is a name on one line, and not empty. A type with a method UnmarshalText, or
// that of a Setter, reads itself; a list or a mapping one with the method SetNode of a NodeSetter; a value of a
// list or a mapping, also one with the method UnmarshalYAML of yaml.NodeUnmarshaler.
//
// A field that is a struct contains keys, with its name and a dot before theirs, or with ",inline" as its key
// without them. A list or a map is read from YAML; its structs have fields of the same kind. Of an entry of a
// list, the text with the tag key:"@" receives the file and the line. A struct with a method Check() error is
// checked after it was read.
package section

import (
	"reflect"
	"strings"
)

// Source is where a setting is from.
type Source struct {
	File string // name, for messages
	Dir  string // base of relative paths
	Home string // of the user, for ~; "" means unknown
}

// Field is a key.
type Field struct {
	Name       string // with the names of the structs that contain it
	Structured bool   // its value is a list or a mapping
	Tenant     bool   // a tier or a tenant may set it
	Restart    bool   // a reload does not change it
	Short      bool   // a text in place of its section is its value
	Project    string // the tag of that name
	Alias      string // the tag of that name
	index      []int
	tag        reflect.StructTag
}

// Fields returns the keys of the struct that to points to.
func Fields(to any) []Field { return fields(reflect.TypeOf(to).Elem(), "", nil) }

func fields(of reflect.Type, prefix string, index []int) (all []Field) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(index[:len(index):len(index)], i)
		name, options, _ := strings.Cut(f.Tag.Get("key"), ",")
		switch {
		case options == "inline" || name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			all = append(all, fields(f.Type, prefix, at)...)
		case name == "" || name == "@":
		case f.Type.Kind() == reflect.Struct && !isText(f.Type) && !isNode(f.Type):
			all = append(all, fields(f.Type, prefix+name+".", at)...)
		default:
			all = append(all, Field{
				Name:       prefix + name,
				Structured: isStructured(f.Type),
				Tenant:     strings.Contains(options, "tenant"),
				Restart:    strings.Contains(options, "restart"),
				Short:      strings.Contains(options, "short"),
				Project:    f.Tag.Get("project"),
				Alias:      f.Tag.Get("alias"),
				index:      at,
				tag:        f.Tag,
			})
		}
	}
	return all
}

// Pointer returns a pointer to the value of the key in the struct that to points to.
func (f Field) Pointer(to any) any { return f.of(to).Addr().Interface() }

func (f Field) of(to any) reflect.Value { return reflect.ValueOf(to).Elem().FieldByIndex(f.index) }

func isStructured(t reflect.Type) bool {
	return isNode(t) || !isText(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map)
}
