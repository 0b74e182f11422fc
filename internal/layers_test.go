// The import policy of the house, as a test. Change the code before the table.
package internal_test

import (
	"go/build"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/sandpiper-mcp/sandpiper/"

// bands orders the rooms from bottom to top. A room imports lower bands and its
// own sub-rooms only: so each can be understood without what stands on it, and
// no two rooms of one band grow into each other.
// fault lies below the lowest, since every room, band 0 too, speaks in its kinds.
var bands = map[string]int{
	"fault":   -1,
	"durable": 0,
	"tenant":  0, "tool": 0, "shape": 0, "pii": 0, "clock": 0, "logtest": 0, "longtest": 0,
	"sandbox": 1, "python": 1, "store": 1, "view": 1, "secret": 1, "tokens": 1, "model": 1, "audit": 1, "telemetry": 1, "clientconfig": 1,
	"workspace": 2, "skill": 2, "session": 2, "vault": 2, "approval": 2, "journal": 2, "meter": 2,
	"packages": 2, "catalog": 2, "policy": 2, "guardrail": 2,
	"tenants": 3, "egress": 3, "codegen": 3, "preflight": 3, "upstream": 3,
	"toolcall": 4, "discovery": 4,
	"execution": 5,
	"task":      6, "workflow": 6,
	"mcpserver": 7, "httpserver": 7,
	"config": 8,
	"daemon": 9,
	"bench":  10,
	"cmd":    11, "scripts": 11, "examples": 11,
}

// reserved names outside packages that only the listed rooms may import.
var reserved = map[string]struct {
	rooms  []string
	reason string
}{
	"github.com/modelcontextprotocol/go-sdk": {[]string{"mcpserver/wire", "upstream/mcp", "examples/servers", "bench"},
		"SDK types stop at the border, so that the next protocol or SDK changes one package; the example servers are programs of others, as far as the daemon knows; bench measures the client of others beside ours"},
	"github.com/spf13/cobra": {[]string{"cmd/sandpiper"},
		"flags are one way of saying a configuration; the rooms take Config values"},
	"github.com/kluctl/go-embed-python": {[]string{"python"},
		"who embeds CPython decides how it is extracted and verified"},
	"go.opentelemetry.io": {[]string{"telemetry"},
		"the room that exports has no field for a value; a tracer in the hands of all others would"},
	"github.com/prometheus": {[]string{"telemetry"},
		"what is scraped is what telemetry tells"},
	"modernc.org/sqlite": {[]string{"store", "examples/servers/database"},
		"every database of ours is opened with the same settings and migrations; that of the example server is not ours"},
}

func TestImportsPointDown(t *testing.T) {
	seen := 0
	for _, root := range []string{".", "../cmd", "../scripts", "../examples"} {
		err := filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			if e.Name() == "testdata" {
				return filepath.SkipDir
			}
			seen += checkPackage(t, dir)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 5 {
		t.Errorf("looked at %d packages: the test no longer finds the tree", seen)
	}
}

// checkPackage holds every file in dir, whatever its system or tags, against
// the table. Test files may build a room's surroundings and are not held to the
// bands, but the reserved names bind them too.
func checkPackage(t *testing.T, dir string) int {
	ctx := build.Default
	ctx.UseAllFiles = true
	p, err := ctx.ImportDir(dir, 0)
	if _, none := err.(*build.NoGoError); none {
		return 0
	}
	if err != nil {
		t.Errorf("reading %s: %v", dir, err)
		return 0
	}
	room := strings.TrimPrefix(filepath.ToSlash(dir), "../")
	for _, path := range p.Imports {
		checkBand(t, room, path)
	}
	for _, path := range append(append(p.Imports, p.TestImports...), p.XTestImports...) {
		checkReserved(t, room, path)
	}
	return 1
}

func checkBand(t *testing.T, room, path string) {
	imported, ours := strings.CutPrefix(path, module)
	if !ours {
		return
	}
	from, to := top(room), top(strings.TrimPrefix(imported, "internal/"))
	high, known := bands[from]
	if !known && from != "." {
		t.Errorf("internal/%s is in no band: add the room to the table", from)
		return
	}
	low, known := bands[to]
	switch {
	case !known:
		t.Errorf("%s imports %s, which is in no band: add the room to the table", room, path)
	case from == to || low < high:
	case low == high:
		t.Errorf("%s imports %s of the same band: rooms of one band stay apart, what both need lies below", room, to)
	default:
		t.Errorf("%s (band %d) imports %s (band %d): imports point down, so that the lower room stands alone", room, high, to, low)
	}
}

func checkReserved(t *testing.T, room, path string) {
	for name, rule := range reserved {
		if path != name && !strings.HasPrefix(path, name+"/") {
			continue
		}
		for _, r := range rule.rooms {
			if room == r || strings.HasPrefix(room, r+"/") {
				return
			}
		}
		t.Errorf("%s imports %s, which only %s may: %s", room, path, strings.Join(rule.rooms, " and "), rule.reason)
	}
}

// top returns the first element of a slash-separated path: the room's name.
func top(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}
