package home_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// A deleted tenant leaves no names of fields in its results. The directory may be mounted, and remains.
func TestDeleteEmptiesOwnModules(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t)})
	for _, uid := range []string{"customer_A", "b"} {
		acquire(t, ts, uid).Release(t.Context())
		key := home.OwnModules("k", id(t, uid))
		if err := ts.MakeModules(key); err != nil {
			t.Fatal(err)
		}
		dir, _ := ts.Modules(key)
		for _, path := range []string{home.TypesFile(dir), filepath.Join(dir, "__init__.py")} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := ts.Delete(t.Context(), id(t, "customer_A")); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"customer_A", "b"} {
		key := home.OwnModules("k", id(t, uid))
		dir, _ := ts.Modules(key)
		entries, err := os.ReadDir(dir)
		if _, typesErr := os.Stat(home.TypesFile(dir)); err != nil || len(entries) == 0 != (uid == "customer_A") ||
			(typesErr != nil) != (uid == "customer_A") {
			t.Errorf("%s: %v, %v, %v", uid, entries, err, typesErr)
		}
	}
}
