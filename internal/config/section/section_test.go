package section_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

type settings struct {
	Keep   time.Duration `key:"keep,tenant" default:"24h" project:"lower"`
	Most   int           `key:"most,restart" range:"1 10" project:"lower"`
	Size   int64         `key:"size" form:"megabytes or never" range:"1 100"`
	Age    time.Duration `key:"age" form:"age"`
	Every  time.Duration `key:"every" range:"1s 7d"`
	Strict bool          `key:"strict" project:"enable"`
	Open   bool          `key:"open" project:"disable"`
	Mode   string        `key:"mode" allow:"off on strict" project:"tighten"`
	Dir    string        `key:"dir" form:"path"`
	Key    string        `key:"key" form:"reference"`
	URL    string        `key:"url" form:"url"`
	Note   string        `key:"note" form:"text"`
	Inner  Limits        `key:"inner"`
	Limits `key:",inline"`
	List   []entry           `key:"list"`
	Words  []string          `key:"words" form:"one or more" project:"add"`
	Prices map[string]price  `key:"prices"`
	Names  map[string]string `key:"names"`
	Own    upper             `key:"own"`
	Base   string            `key:"base" form:"address"`
	Free   string
}

// upper reads itself.
type upper string

func (u *upper) UnmarshalYAML(n ast.Node) error {
	text := n.GetToken().Value
	if text != strings.ToUpper(text) {
		return errors.New("has small letters")
	}
	*u = upper(text)
	return nil
}

type Limits struct {
	Depth int `key:"depth" range:"1 9" project:"lower"`
}

func (l Limits) WithDefaults() Limits {
	if l.Depth == 0 {
		l.Depth = 3
	}
	return l
}

type entry struct {
	Name   string          `key:"name,nonempty"`
	Inputs json.RawMessage `key:"inputs"`
	Run    struct {
		Skill string `key:"skill"`
	} `key:"run"`
	At string `key:"@"`
}

func (e *entry) Check() error {
	if e.Name == "" {
		return fault.New(fault.Invalid, "has no name").WithHint("add name: NAME")
	}
	return nil
}

type price struct {
	Input float64 `key:"input"`
}

func field(t *testing.T, name string) section.Field {
	t.Helper()
	for _, f := range section.Fields(&settings{}) {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no field %s", name)
	return section.Field{}
}

func TestFields(t *testing.T) {
	var names []string
	for _, f := range section.Fields(&settings{}) {
		name := f.Name
		for flag, set := range map[string]bool{"structured": f.Structured, "tenant": f.Tenant, "restart": f.Restart} {
			if set {
				name += " " + flag
			}
		}
		names = append(names, name)
	}
	want := "keep tenant,most restart,size,age,every,strict,open,mode,dir,key,url,note,inner.depth,depth,list structured,words " +
		"structured,prices structured,names structured,own,base"
	if got := strings.Join(names, ","); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ key, text, want string }{
		{"keep", "90", "1m30s"}, {"keep", "soon", "is \"soon\"; it must be a time of at most 24h"}, {"keep", "25h",
			"it must be a time of at most 24h"},
		{"most", "10", "10"}, {"most", "11", "is \"11\"; it must be a whole number from 1 to 10"}, {"most", "1.5", "whole number"}, {"most",
			"99999999999999999999", "whole number"},
		{"size", "2", "2097152"}, {"size", "never", "0"}, {"size", "101", "from 1 to 100"},
		{"age", "30d", "720h0m0s"}, {"age", "never", "0s"}, {"age", "-1d", "or never"},
		{"every", "7d", "168h0m0s"}, {"every", "8d", "a time from 1s to 7d"}, {"every", "1ms", "a time from 1s to 7d"},
		{"strict", "true", "true"}, {"strict", "yes", "is \"yes\"; it must be true or false"},
		{"mode", "strict", "strict"}, {"mode", "strickt", "it must be off, on or strict; did you mean strict?"},
		{"dir", "~/a/../b", "/home/b"}, {"dir", "a", "/base/a"}, {"dir", "/c", "/c"}, {"dir", "", "a path"}, {"dir", "a\x00", "a path"},
		{"key", "${K}", "${K}"}, {"key", "sk-123", "must be a reference to the key, not the key"}, {"key", "${K} and",
			"must be a reference"},
		{"url", "http://a/b", "http://a/b"}, {"url", "${URL}", "${URL}"}, {"url", "http://u:p@a/", "without user"}, {"url", "ftp://a",
			"must be a URL"},
		{"base", "${URL}/a?b", "${URL}/a?b"}, {"base", "http://", "http://"}, {"base", "a.example", "must begin with http:// or https://"},
		{"note", "", ""}, {"note", "a b", "a b"}, {"note", "a\nb", "a name on one line"},
		{"inner.depth", "9", "9"}, {"depth", "0", "from 1 to 9"},
	} {
		var s settings
		f := field(t, c.key)
		got := ""
		if err := f.SetText(&s, c.text, section.Source{Dir: "/base", Home: "/home"}); err != nil {
			got = fault.Message(err)
		} else if at := reflect.ValueOf(f.Pointer(&s)).Elem(); at.Type() == reflect.TypeFor[time.Duration]() {
			got = time.Duration(at.Int()).String()
		} else {
			text, err := json.Marshal(at.Interface())
			if err != nil {
				t.Fatal(err)
			}
			got = strings.Trim(string(text), `"`)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q is %s, want %s", c.key, c.text, got, c.want)
		}
		if strings.Contains(c.text, "sk-") && strings.Contains(got, c.text) {
			t.Errorf("%s: the error repeats a secret: %s", c.key, got)
		}
	}
}

func node(t *testing.T, text string) ast.Node {
	t.Helper()
	f, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	return f.Docs[0].Body
}

func TestStructures(t *testing.T) {
	for _, c := range []struct{ key, text, want, hint string }{
		{key: "list", text: "[]", want: "[]"},
		{key: "list", text: "- name: a\n  inputs: {x: 1}\n  run: {skill: s}\n- {name: b}",
			want: `[{"Name":"a","Inputs":{"x":1},"Run":{"Skill":"s"},"At":"f line ` +
				`1"},{"Name":"b","Inputs":null,"Run":{"Skill":""},"At":"f line 4"}]`},
		{key: "list", text: "a", want: "must be a list"},
		{key: "list", text: "- a", want: "f line 1: entry 1 of list must contain keys such as inputs, name, run"},
		{key: "list", text: "- {name: a}\n- {nam: b}", want: `f line 2: entry 2 of list has no key "nam"; did you mean "name"?`},
		{key: "list", text: "- {name: a, run: {skil: s}}", want: `f line 1: entry 1 of list ("a") run has no key "skil"; did you mean ` +
			`"skill"?`},
		{key: "list", text: "- {name: ' '}", want: `entry 1 of list (" ") name is empty`},
		{key: "list", text: "- {run: {skill: s}}", want: "f line 1: entry 1 of list has no name", hint: "add name: NAME"},
		{key: "list", text: "- {name: a, inputs: [1]}", want: "inputs must be a mapping of argument names to values"},
		{key: "words", text: "a", want: `["a"]`},
		{key: "words", text: "[a, b]", want: `["a","b"]`},
		{key: "words", text: "[]", want: "must be a text or a list of texts"},
		{key: "words", text: "[[a]]", want: "must be a text or a list of texts"},
		{key: "prices", text: "{m: {input: 0.5}}", want: `{"m":{"Input":0.5}}`},
		{key: "prices", text: "{m: {input: -1}}", want: "m input must be a number of at least 0"},
		{key: "prices", text: "{m: {input: .inf}}", want: "m input must be a number"},
		{key: "names", text: "{a: b, c: 1}", want: `{"a":"b","c":"1"}`},
		{key: "names", text: "[a]", want: "must be a mapping of names to texts, such as {NAME: value}"},
		{key: "names", text: "{a: [b]}", want: "must hold a text for each name"},
		{key: "own", text: "A", want: `"A"`},
		{key: "own", text: "Ab", want: "has small letters"},
		{key: "prices", text: "[m]", want: "must be a mapping of names to values"},
	} {
		s := settings{Words: []string{"before"}, List: []entry{{Name: "before"}}}
		f := field(t, c.key)
		got := ""
		if err := f.SetNode(&s, c.key, node(t, c.text), section.Source{File: "f"}); err != nil {
			if got = fault.Message(err); fault.Hint(err) != c.hint {
				t.Errorf("%s: hint %q", c.text, fault.Hint(err))
			}
			if len(s.List) != 1 || len(s.Words) != 1 {
				t.Errorf("%s: an error changed the value: %+v", c.text, s)
			}
		} else if text, err := json.Marshal(reflect.ValueOf(f.Pointer(&s)).Elem().Interface()); err != nil {
			t.Fatal(err)
		} else if got = string(text); got == "null" {
			got = "[]"
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s is %s\nwant %s", c.key, c.text, got, c.want)
		}
	}
}

func TestTighten(t *testing.T) {
	for _, c := range []struct {
		key   string
		c, p  settings
		want  settings
		wants bool
	}{
		{"keep", settings{}, settings{Keep: time.Hour}, settings{Keep: time.Hour}, true},
		{"keep", settings{}, settings{Keep: 25 * time.Hour}, settings{}, false}, // more than the default
		{"keep", settings{Keep: time.Minute}, settings{Keep: time.Hour}, settings{Keep: time.Minute}, false},
		{"most", settings{}, settings{Most: 5}, settings{Most: 5}, true}, // of no limit
		{"most", settings{Most: 4}, settings{Most: 5}, settings{Most: 4}, false},
		{"depth", settings{}, settings{Limits: Limits{4}}, settings{}, false}, // more than WithDefaults gives
		{"depth", settings{}, settings{Limits: Limits{2}}, settings{Limits: Limits{2}}, true},
		{"inner.depth", settings{Inner: Limits{5}}, settings{Inner: Limits{4}}, settings{Inner: Limits{4}}, true},
		{"strict", settings{Strict: true}, settings{}, settings{Strict: true}, false},
		{"strict", settings{}, settings{Strict: true}, settings{Strict: true}, true},
		{"strict", settings{}, settings{}, settings{}, true},
		{"open", settings{}, settings{Open: true}, settings{}, false},
		{"open", settings{Open: true}, settings{}, settings{}, true},
		{"mode", settings{Mode: "on"}, settings{Mode: "strict"}, settings{Mode: "strict"}, true},
		{"mode", settings{Mode: "on"}, settings{Mode: "off"}, settings{Mode: "on"}, false},
		{"words", settings{Words: []string{"a"}}, settings{Words: []string{"b"}}, settings{Words: []string{"a", "b"}}, true},
		{"size", settings{}, settings{Size: 1}, settings{}, false}, // projects cannot set it
	} {
		got := c.c
		if ok := field(t, c.key).Tighten(&got, &c.p); ok != c.wants || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v with %+v is %+v, %v", c.key, c.c, c.p, got, ok)
		}
	}
}

func TestSetDefaults(t *testing.T) {
	var s settings
	section.SetDefaults(&s)
	if want := (settings{Keep: 24 * time.Hour}); !reflect.DeepEqual(s, want) {
		t.Errorf("%+v", s)
	}
}
