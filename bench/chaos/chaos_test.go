package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	binary, err := rig.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// require skips the test if this machine cannot execute code, and fails it for other errors.
func require(t *testing.T, err error) {
	t.Helper()
	if fault.KindOf(err) == fault.Unavailable && os.Getenv("REQUIRE_SANDBOX") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRun(t *testing.T) {
	longtest.Skip(t)
	r, err := Run(t.Context(), Config{Binary: build(t), Rounds: 4, Seed: 1})
	require(t, err)
	var b strings.Builder
	r.Print(&b)
	if r.Failed() || r.Rounds != 4 {
		t.Errorf("the run found problems:\n%s", &b)
	}
	for _, k := range []kind{file, code, skill} {
		if r.Acknowledged[string(k)] == 0 {
			t.Errorf("no %s write was acknowledged", k)
		}
	}
	if !strings.Contains(b.String(), "\nlost                       0\n") {
		t.Errorf("printed:\n%s", &b)
	}
}

// TestVerifyFindsDamage damages values and checks that each is reported.
func TestVerifyFindsDamage(t *testing.T) {
	longtest.Skip(t)
	c := newChaos(Config{Binary: build(t)}.withDefaults(), t.TempDir())
	require(t, c.rig.Ready(t.Context()))
	cl, err := c.newClient(t.Context(), 0)
	require(t, err)
	store := func(k key, acknowledged bool) {
		if err := cl.store(t.Context(), cl.Client, k, c.ledger.begin(k)); err != nil {
			t.Fatal(err)
		}
		if acknowledged {
			c.ledger.acknowledge(k)
		}
	}
	at := func(kind kind, name string) key { return key{kind, cl.folder() + "/" + name} }
	store(at(file, "kept"), true)
	store(at(file, "late"), false) // begun and present
	store(at(file, "gone"), true)
	store(at(code, "cut"), true)
	store(at(file, "torn"), false)
	store(at(file, "old"), true)
	store(key{skill, "kept"}, true)
	store(key{skill, "gone"}, true)
	never := at(file, "never") // begun and absent
	c.ledger.begin(never)

	dir := filepath.Join(c.rig.Data(), "workspaces", "local", filepath.FromSlash(cl.folder()))
	damage := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	damage(os.Remove(filepath.Join(dir, "gone")))
	damage(os.Truncate(filepath.Join(dir, "cut"), 3))
	damage(os.Truncate(filepath.Join(dir, "torn"), 3))
	damage(os.WriteFile(filepath.Join(dir, ".writing"), nil, 0o644))
	c.ledger.begin(at(file, "old"))
	c.ledger.acknowledge(at(file, "old")) // the value still has the first version
	_, err = c.rig.Run(t.Context(), "skills", "delete", "gone")
	damage(err)

	if err := c.verify(t.Context(), cl.Client, c.ledger.keys(), cl.folder()); err != nil {
		t.Fatal(err)
	}
	if err := cl.stop(); err != nil {
		t.Error(err)
	}
	found := func(list []string) (words []string) { // the two after "round N:"
		for _, line := range list {
			words = append(words, strings.Join(strings.Fields(strings.ReplaceAll(line, cl.folder()+"/", ""))[2:4], " "))
		}
		slices.Sort(words)
		return words
	}
	if diff := cmp.Diff([]string{"code cut:", "file gone:", "file old:", "skill gone:"}, found(c.res.Lost)); diff != "" {
		t.Errorf("lost (-want +got):\n%s\n%q", diff, c.res.Lost)
	}
	if diff := cmp.Diff([]string{".writing exists", "file torn:"}, found(c.res.Torn)); diff != "" {
		t.Errorf("half-written (-want +got):\n%s\n%q", diff, c.res.Torn)
	}
	if got := c.ledger.find(at(file, "late")); got != (entry{1, 1}) {
		t.Errorf("a begun version that is present: %+v", got)
	}
	if got := c.ledger.find(never); got != (entry{}) {
		t.Errorf("a begun version that is absent: %+v", got)
	}
}

func TestContentIsDeterministicAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range []key{{file, "a"}, {file, "b"}, {skill, "a"}} {
		for version := 1; version < 20; version++ {
			text := content(k, version)
			if text != content(k, version) || len(text) > 100_000 || seen[text] {
				t.Fatalf("version %d of %v: %.50q", version, k, text)
			}
			seen[text] = true
		}
	}
}
