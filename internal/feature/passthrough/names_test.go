package passthrough

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// refs parses words of the form "server/tool".
func refs(words string) (all []tool.Ref) {
	for _, w := range strings.Fields(words) {
		server, name, _ := strings.Cut(w, "/")
		all = append(all, tool.Ref{Server: server, Tool: name})
	}
	return all
}

func TestConflictingNamesIncludeServer(t *testing.T) {
	for name, c := range map[string]struct {
		refs string
		want string // names in the order of refs
	}{
		"alone":                            {"a/x a/y b/z", "x y z"},
		"both of a clash":                  {"a/x b/x a/y", "a_x b_x y"},
		"names that clients do not take":   {"a/x.y a/größe a/z/w", "x_y gr__e z_w"},
		"what becomes one name":            {"a/x.y b/x_y", "a_x_y b_x_y"},
		"another's name with its server":   {"a/b_c a_b/c d/c", "b_c a_b_c_baef76bb d_c"},
		"one that would be taken over":     {"files/read evil/files_read", "read evil_files_read"},
		"of one server, that become alike": {"a/x.y a/x_y a/x-y", "a_x_y_25a40e91 a_x_y_7cd0d1c5 x-y"},
		"said twice":                       {"a/x a/x", "x x"},
	} {
		all := refs(c.refs)
		n := newNames(all, plain)
		var got []string
		for _, r := range all {
			got = append(got, n.shown[r])
			if found, err := n.find("tool", n.shown[r]); err != nil || found != r {
				t.Errorf("%s: %s: found %v, %v", name, n.shown[r], found, err)
			}
		}
		if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

// A user may have allowed a name in a client, so adding a server must not change the tool of a name.
func TestNamesAreStable(t *testing.T) {
	words := strings.Fields("a b a_b c b_c a_b_c x.y x_y a_x_y evil_a evil")
	for range 2000 {
		var all []tool.Ref
		for range 12 {
			all = append(all, tool.Ref{Server: words[rand.IntN(len(words))], Tool: words[rand.IntN(len(words))]})
		}
		before, after := newNames(all[:8], plain), newNames(all, plain)
		for name, claims := range before.claims {
			was, err := before.find("tool", name)
			if err != nil {
				continue
			}
			if is, err := after.find("tool", name); err == nil && is != was {
				t.Fatalf("%s meant %s and now %s; claims %v, of %v", name, was, is, claims, all)
			}
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a/x b/x a_b/c a/b_c d/c", uint64(1))
	f.Add(strings.Repeat("s", 90)+"/"+strings.Repeat("t", 90)+" b/"+strings.Repeat("t", 90), uint64(2))
	ok := regexp.MustCompile(`^[a-zA-Z0-9_-]{0,64}$`)
	f.Fuzz(func(t *testing.T, words string, seed uint64) {
		all := refs(words)
		n := newNames(all, plain)
		taken := map[string]tool.Ref{}
		for _, r := range all {
			name := n.shown[r]
			if other, ok := taken[name]; ok && other != r {
				t.Errorf("%v and %v are both %q", r, other, name)
			}
			taken[name] = r
			if !ok.MatchString(name) {
				t.Errorf("%v is %q", r, name)
			}
		}
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if d := cmp.Diff(n.shown, newNames(all, plain).shown); d != "" {
			t.Errorf("the order of the servers changes the names:\n%s", d)
		}
	})
}

func TestPagesAreStable(t *testing.T) {
	var all []line
	for i := range 5000 {
		all = append(all, newLine("s", fmt.Sprintf("tool%04d", i), fmt.Sprintf("tool%04d", i)))
	}
	all = sorted(all)
	var got []string
	pages := 0
	for cursor := ""; ; {
		items, next, err := page(all, cursor)
		if err != nil || len(items) > maxLines {
			t.Fatal(len(items), err)
		}
		for _, item := range items {
			got = append(got, string(item))
		}
		if pages++; next == "" {
			break
		}
		cursor = next
		if pages == 3 { // delete the last entry of the page, and add entries before and after it
			all = slices.DeleteFunc(all, func(l line) bool { return l.key == "s\x00tool1499" })
			all = sorted(append(all, newLine("a", "new", "a new"), newLine("s", "tool1499b", "s new")))
		}
	}
	if pages != 11 || len(got) != 5001 || got[1500] != `"s new"` || got[1501] != `"tool1500"` || len(slices.Compact(got)) != 5001 {
		t.Errorf("%d pages, %d items, around the change %q", pages, len(got), got[1498:1503])
	}
}

func TestPageByteLimit(t *testing.T) {
	big := strings.Repeat("x", maxBytes/2)
	all := sorted([]line{newLine("s", "a", big), newLine("s", "b", big), newLine("s", "c", big+big+big)})
	cursor, pages := "", 0
	for {
		items, next, err := page(all, cursor)
		if err != nil || len(items) != 1 {
			t.Fatal(len(items), err)
		}
		if pages++; next == "" {
			break
		}
		cursor = next
	}
	if pages != 3 {
		t.Errorf("%d pages", pages)
	}
}
