package catalog_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func TestViewerSeesAllowedTools(t *testing.T) {
	alice, err := tenant.Parse("alice")
	if err != nil {
		t.Fatal(err)
	}
	allow := map[tenant.ID][2][]string{
		alice:        {{"git*"}, {"git.list_*", "mail.*"}},
		tenant.Local: {nil, []string{}},
	}
	c, err := catalog.Open(catalog.Config{
		Dir: t.TempDir(), Servers: []catalog.Configured{{Name: "git"}, {Name: "gitlab"}, {Name: "mail"}},
		Allow: func(v catalog.Viewer) []*catalog.Allow {
			lists, ok := allow[v.Tenant]
			if !ok {
				return nil
			}
			a, err := catalog.NewAllow(lists[0], lists[1])
			if err != nil {
				t.Fatal(err)
			}
			some, err := catalog.NewAllow(nil, []string{v.Subset + "*"})
			if err != nil {
				t.Fatal(err)
			}
			return []*catalog.Allow{a, some}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"git", "mail"} {
		var l catalog.Listing
		for _, name := range []string{"list_issues", "list_users", "delete"} {
			l.Tools = append(l.Tools, tool.Definition{Ref: tool.Ref{Server: server, Tool: name}, Description: name + " of " + server,
				Input: []byte(`{"type":"object"}`)})
		}
		if _, err := c.Put(t.Context(), server, l); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(v catalog.Viewer) (tools []string) {
		now := c.For(v)
		for _, x := range now.Tools {
			tools = append(tools, x.Ref.String())
			if found, ok := now.Find(x.Ref); !ok || found.Ref != x.Ref || now.Resolve(x.Ref) != x.Ref {
				t.Errorf("%s is not found", x.Ref)
			}
		}
		found, _ := now.Search("list delete issues users", "", 100)
		if len(found) != len(tools) {
			t.Errorf("%v: search finds %d of %d", v, len(found), len(tools))
		}
		return tools
	}
	for _, c := range []struct {
		v    catalog.Viewer
		want string
	}{
		{catalog.Viewer{}, "[git.delete git.list_issues git.list_users mail.delete mail.list_issues mail.list_users]"},
		{catalog.Viewer{Tenant: alice}, "[git.list_issues git.list_users]"},
		{catalog.Viewer{Tenant: alice, Subset: "git.list_u"}, "[git.list_users]"},
		{catalog.Viewer{Tenant: alice, Subset: "mail"}, "[]"},
		{catalog.Viewer{Tenant: tenant.Local}, "[]"},
	} {
		if got := fmt.Sprint(seen(c.v)); got != c.want {
			t.Errorf("%v sees %s, want %s", c.v, got, c.want)
		}
	}
	now := c.For(catalog.Viewer{Tenant: alice})
	if _, ok := now.Server("mail"); ok || len(now.Servers) != 1 || now.Servers[0].Tools != 2 {
		t.Errorf("%+v", now.Servers)
	}
	if near := now.NearestFunctions("git", "delet", 3); slices.Contains(near, "delete") {
		t.Error("a hidden tool is suggested")
	}
	if !now.Allows(tool.Ref{Server: "git", Tool: "list_x"}) || now.Allows(tool.Ref{Server: "git", Tool: "resources/read"}) {
		t.Error("requests are not subject to the patterns")
	}
	if c.For(catalog.Viewer{Tenant: alice}) != now {
		t.Error("the part of a snapshot is computed twice")
	}
}

func TestViewerSeesExactlyItsTools(t *testing.T) {
	c, err := catalog.Open(catalog.Config{Dir: t.TempDir(), Servers: []catalog.Configured{{Name: "git"}, {Name: "mail"}}})
	if err != nil {
		t.Fatal(err)
	}
	for server, names := range map[string][]string{"git": {"list", "*", "list_all"}, "mail": {"send"}} {
		var l catalog.Listing
		for _, name := range names {
			l.Tools = append(l.Tools, tool.Definition{Ref: tool.Ref{Server: server, Tool: name}, Input: []byte(`{}`)})
		}
		if _, err := c.Put(t.Context(), server, l); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ only, want []string }{
		{[]string{"git.list"}, []string{"git.list"}},
		{[]string{"git.*"}, []string{"git.*"}}, // the name of a tool, not a pattern
		{[]string{"mail.send", "git.missing"}, []string{"mail.send"}},
		{[]string{}, nil},
	} {
		now := c.For(catalog.Viewer{Only: catalog.NewAllowExactly(test.only)})
		var got []string
		for _, t := range now.Tools {
			got = append(got, t.Ref.String())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: %q", test.only, got)
		}
		if now.Allows(tool.Ref{Server: "git", Tool: "resources/list"}) {
			t.Errorf("%q: the resources are visible", test.only)
		}
	}
	for i := range 2000 {
		c.For(catalog.Viewer{Only: catalog.NewAllowExactly([]string{fmt.Sprint("git.", i)})})
	}
}

func TestUpdateSwapsWhileNobodyLooks(t *testing.T) {
	c, err := catalog.Open(catalog.Config{Dir: t.TempDir(), Servers: []catalog.Configured{{Name: "old"}},
		Allow: func(catalog.Viewer) []*catalog.Allow { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	swapped := false
	c.Update([]catalog.Configured{{Name: "new"}}, nil, nil, func() {
		swapped = true
		if c.Looks() {
			t.Error("a viewer sees the servers of one configuration with the selection of another")
		}
	})
	if _, there := c.For(catalog.Viewer{}).Server("new"); !there || !swapped || !c.Looks() {
		t.Errorf("afterwards: new server %v, swapped %v", there, swapped)
	}
}
