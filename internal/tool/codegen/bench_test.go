package codegen_test

import (
	"fmt"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// thousands returns 7,000 tools on 40 servers, copied from testdata and from the
// captured tool lists if they are available.
func thousands(b *testing.B) (servers []codegen.Server) {
	b.Helper()
	var defs []tool.Definition
	for _, s := range append(captured(b), diverse(b)...) {
		defs = append(defs, s.Tools...)
	}
	for i := range 40 {
		s := codegen.Server{Name: fmt.Sprintf("server %d", i), Description: "One of many."}
		for j := range 175 {
			d := defs[(i*175+j)%len(defs)]
			d.Tool = fmt.Sprintf("%s_%d", d.Tool, j)
			s.Tools = append(s.Tools, d)
		}
		servers = append(servers, s)
	}
	return servers
}

func BenchmarkGenerate7000(b *testing.B) {
	servers := thousands(b)
	size := 0
	for b.Loop() {
		size = 0
		for _, s := range servers {
			for _, f := range codegen.Generate(s) {
				size += len(f.Data)
			}
		}
	}
	b.SetBytes(int64(size))
}

func BenchmarkSync7000(b *testing.B) {
	servers := thousands(b)
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			_, dirs := newDirs(b, 1)
			mustSync(b, dirs[0], servers)
		}
	})
	b.Run("first sync", func(b *testing.B) {
		path, dirs := newDirs(b, 1)
		mustSync(b, dirs[0], servers)
		for b.Loop() {
			mustSync(b, codegen.NewDir(path, path+".lock"), servers)
		}
	})
	b.Run("one server changed", func(b *testing.B) {
		_, dirs := newDirs(b, 1)
		mustSync(b, dirs[0], servers)
		n := 0
		for b.Loop() {
			n++
			servers[3].Tools[7].Description = fmt.Sprint("Version ", n)
			mustSync(b, dirs[0], servers)
		}
	})
	b.Run("nothing changed", func(b *testing.B) {
		_, dirs := newDirs(b, 1)
		mustSync(b, dirs[0], servers)
		for b.Loop() {
			mustSync(b, dirs[0], servers)
		}
	})
}

func mustSync(b *testing.B, d *codegen.Dir, servers []codegen.Server) {
	b.Helper()
	if _, err := d.Sync(b.Context(), servers); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkDescribe(b *testing.B) {
	d := diverse(b)[0].Tools[0]
	for b.Loop() {
		codegen.Describe(d, "tracker", "list_issues")
	}
}
