package all_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
)

// A feature is named like its package, has a page, and is listed once, in the order of the names.
func TestFeatures(t *testing.T) {
	var names []string
	for _, f := range all.Features() {
		names = append(names, f.Name)
		for _, file := range []string{filepath.Join("..", f.Name, "feature.go"), filepath.Join("../../../docs", f.Docs)} {
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				t.Errorf("feature %q: %s is not a file: %v", f.Name, file, err)
			}
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("the features are %q; they must be sorted and differ", names)
	}
}
