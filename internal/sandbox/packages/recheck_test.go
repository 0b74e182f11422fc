package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A layer that an earlier version installed is checked once by the rules of this version.
func TestInstalledLayerIsCheckedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"different contents": {map[string]string{"zzz.py": "", "one-1.dist-info/RECORD": "zzz.py,sha256=a,1\n",
			"two-1.dist-info/RECORD": "zzz.py,sha256=b,1\n"}, "both one and two contain a file zzz.py"},
		"a directory": {map[string]string{"zzz.py": "", "zzz/__init__.py": "x = 1", "one-1.dist-info/RECORD": "zzz.py,sha256=a,1\n",
			"two-1.dist-info/RECORD": "zzz/__init__.py,sha256=b,1\n"}, "one would replace the other"},
		"no clash": {map[string]string{"a.py": "", "b.py": "", "one-1.dist-info/RECORD": "a.py,sha256=a,1\n",
			"two-1.dist-info/RECORD": "b.py,sha256=b,1\ngone.py,,\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			layer := filepath.Join(t.TempDir(), "layer")
			root := filepath.Join(layer, "root")
			for name, text := range c.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := recheck(layer, root)
			_, marked := os.Stat(filepath.Join(layer, checkedName))
			if c.want == "" {
				if err != nil || marked != nil {
					t.Errorf("%v, recorded: %v", err, marked)
				}
				return
			}
			if err == nil || !strings.Contains(fault.Message(err), c.want) || !strings.Contains(fault.Hint(err),
				"sandpiper packages install") || marked == nil {
				t.Errorf("%v (hint %s), recorded: %v", err, fault.Hint(err), marked)
			}
		})
	}
}
