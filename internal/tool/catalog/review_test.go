package catalog_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func TestReviewQuarantinesNewTools(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "catalog")
	cfg := catalog.Config{Dir: dir, Servers: []catalog.Configured{{Name: "a", Identity: "a+review", Review: true}}}
	c, err := catalog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	evil := func(name string) tool.Definition {
		return tool.Definition{Ref: tool.Ref{Server: "a", Tool: name}, Title: "EVIL", Description: "EVIL",
			Input: json.RawMessage(`{"type":"object","description":"EVIL"}`)}
	}
	list := func(names ...string) {
		t.Helper()
		l := catalog.Listing{Title: "EVIL", Instructions: "EVIL", Resources: true, Prompts: true, Identity: "a+review"}
		for _, n := range names {
			l.Tools = append(l.Tools, evil(n))
		}
		if _, err := c.Put(t.Context(), "a", l); err != nil {
			t.Fatal(err)
		}
	}
	state := func(c *catalog.Catalog) string {
		var all []string
		now := c.Now()
		for _, x := range now.Tools {
			text := x.Definition.Tool
			if x.Quarantined != nil {
				text += "-"
			}
			if strings.Contains(x.Description+x.Title+string(x.Input), "EVIL") {
				text += "!"
			}
			all = append(all, text)
		}
		s, _ := now.Server("a")
		if s.Resources || s.Prompts {
			all = append(all, "offers")
		}
		if s.Title+s.Instructions != "" {
			all = append(all, "texts")
		}
		return strings.Join(all, " ")
	}
	want := func(want string) {
		t.Helper()
		if got := state(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		again, err := catalog.Open(cfg)
		if err != nil || state(again) != want {
			t.Errorf("after a restart: %q %v, want %q", state(again), err, want)
		}
	}
	list("x", "y")
	want("x- y-")
	if found, _ := c.Now().Search("EVIL", "", 10); len(found) > 0 {
		t.Errorf("the search finds %v", found)
	}
	list("x", "y") // again
	want("x- y-")
	if _, err := c.Accept(t.Context(), "a", "x"); err != nil {
		t.Fatal(err)
	}
	want("x! y-")
	if accepted, err := c.Accept(t.Context(), "a"); err != nil || len(accepted) != 1 {
		t.Fatal(accepted, err)
	}
	want("x! y! offers texts")
	list("x", "y", "z") // a later tool
	want("x! y! z- offers texts")
	list("x", "y") // it is withdrawn and offered again
	list("x", "y", "z")
	want("x! y! z- offers texts")

	other := cfg // a process without review does not see or trust these definitions
	other.Servers = []catalog.Configured{{Name: "a", Identity: "a"}}
	o, err := catalog.Open(other)
	if err != nil || len(o.Now().Tools) > 0 {
		t.Error(err, o.Now().Tools)
	}
}
