package catalog_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// stored is a catalog of many tools, with what was computed from them.
type stored struct {
	cfg   catalog.Config
	index string // file of the search index
	known string // file of what is known of the servers
}

// store1000 stores a catalog as a process does at its start.
func store1000(t *testing.T) stored {
	t.Helper()
	s := stored{cfg: catalog.Config{Dir: t.TempDir(), Derived: t.TempDir(),
		Servers: []catalog.Configured{{Name: "git-hub", Identity: "npx github"}, {Name: "never-listed"}}}}
	s.index, s.known = filepath.Join(s.cfg.Derived, "index"), filepath.Join(s.cfg.Derived, "servers.json")
	put(t, s.open(t), thousand("Manages the repository number %d.")...)
	s.settle(t)
	if err := catalog.Store(s.open(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

func thousand(description string) (all []tool.Definition) {
	for i := range 1000 {
		all = append(all, definition(fmt.Sprintf("repository_%d", i), fmt.Sprintf(description, i)))
	}
	return all
}

func (s stored) open(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// listing returns the file of the listing.
func (s stored) listing(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.cfg.Dir, "git-hub-*.json"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0]
}

// settle makes the listing older than what is stored only once it is not written again.
func (s stored) settle(t *testing.T) {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.listing(t), then, then); err != nil {
		t.Fatal(err)
	}
}

// change replaces bytes of a file, which keeps its size and time.
func change(t *testing.T, path, from, to string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(b, []byte(from)) || len(from) != len(to) {
		t.Fatalf("%s has no %q: %v", path, from, err)
	}
	if err := os.WriteFile(path, bytes.Replace(b, []byte(from), []byte(to), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// sameAsComputed fails unless a catalog answers like one that stores nothing.
func (s stored) sameAsComputed(t *testing.T) {
	t.Helper()
	plain := s.cfg
	plain.Derived = ""
	want, err := catalog.Open(plain)
	if err != nil {
		t.Fatal(err)
	}
	c := s.open(t)
	for _, when := range []string{"before the listings are read", "afterwards"} {
		if diff := cmp.Diff(catalog.OverviewFor(want, catalog.Viewer{}), catalog.OverviewFor(c, catalog.Viewer{})); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
		catalog.Warm(c)
	}
	for _, query := range []string{"repository number 77", "repositry", "forest", "quartz", "git hub"} {
		q := catalog.Query{Text: query, Limit: 5}
		found, total := c.Now().SearchFor(t.Context(), q)
		other, all := want.Now().SearchFor(t.Context(), q)
		if diff := cmp.Diff(other, found); diff != "" || total != all {
			t.Errorf("%q: %d instead of %d: %s", query, total, all, diff)
		}
	}
}

func TestStoredIndexFindsTheSame(t *testing.T) {
	s := store1000(t)
	s.sameAsComputed(t)
	for _, path := range []string{s.index, s.known} {
		was, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := catalog.Store(s.open(t)); err != nil {
			t.Fatal(err)
		}
		if now, err := os.Stat(path); err != nil || !os.SameFile(was, now) {
			t.Errorf("%s was not used, but written again: %v", path, err)
		}
	}
}

// The servers are known before the listings are read: here what is stored of them is not what they have.
func TestServersAreKnownBeforeTheirTools(t *testing.T) {
	s := store1000(t)
	change(t, s.known, `"repository"`, `"depository"`)
	if o := catalog.OverviewFor(s.open(t), catalog.Viewer{}); len(o.Servers) != 2 || len(o.Topics) != 1 || o.Topics[0] != "depository" {
		t.Errorf("%+v", o)
	}
	some, err := catalog.NewAllow(nil, []string{"git-hub.repository_1"})
	if err != nil {
		t.Fatal(err)
	}
	if o := catalog.OverviewFor(s.open(t), catalog.Viewer{Only: some}); len(o.Servers) != 1 || len(o.Topics) != 1 ||
		o.Topics[0] != "repository" {
		t.Errorf("with one of the tools: %+v", o)
	}
}

// What is stored is not used if it is damaged, of another program, or of other listings.
func TestUnfitIndexIsBuiltAgain(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, s stored){
		"a damaged index":     func(t *testing.T, s stored) { change(t, s.index, "repository number 77.", "quartz and forest 77.") },
		"an incomplete index": func(t *testing.T, s stored) { truncate(t, s.index) },
		"incomplete servers":  func(t *testing.T, s stored) { truncate(t, s.known) },
		"servers of a number": func(t *testing.T, s stored) { write(t, s.known, "7") },
		"no servers":          func(t *testing.T, s stored) { remove(t, s.known) },
		"no index":            func(t *testing.T, s stored) { remove(t, s.index) },
		"of a program before": func(t *testing.T, s stored) { change(t, s.known, `"program":"`, `"progr@m":"`) },
		"of a changed listing": func(t *testing.T, s stored) {
			put(t, s.open(t), append(thousand("Manages %d."), definition("forest", "Plants a tree."))...)
		},
		"of a listing with fewer": func(t *testing.T, s stored) {
			put(t, s.open(t), thousand("Manages the repository number %d.")[:999]...)
		},
		"of a removed listing": func(t *testing.T, s stored) { remove(t, s.listing(t)) },
		"of another listing with the size and time of this one": func(t *testing.T, s stored) {
			change(t, s.listing(t), "Manages the repository number 500.", "Manages the quartz and forest 500.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := store1000(t)
			spoil(t, s)
			s.sameAsComputed(t)
			if err := catalog.Store(s.open(t)); err != nil { // and again
				t.Fatal(err)
			}
			s.sameAsComputed(t)
		})
	}
}

// Another category of a server in the configuration changes its tools, though not its listing.
func TestStoredIndexIsOfTheConfiguration(t *testing.T) {
	s := store1000(t)
	s.cfg.Servers[0].Category = "forest"
	s.sameAsComputed(t)
	s.cfg.Static = []catalog.Static{{Categories: map[string]catalog.StaticCategory{"rocks": {Tools: map[string]catalog.StaticTool{"quartz": {Server: "mine", Description: "Finds quartz."}}}}}}
	s.sameAsComputed(t)
}

// A listing that was just written may be written again without changing its time.
func TestUnsettledListingIsNotStored(t *testing.T) {
	s := store1000(t)
	put(t, s.open(t), definition("forest", "Plants a tree."))
	c := s.open(t)
	if err := catalog.Store(c); err != nil {
		t.Fatal(err)
	}
	change(t, s.listing(t), `"forest"`, `"quartz"`)
	s.sameAsComputed(t)
}

func truncate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
