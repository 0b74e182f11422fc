package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Named finds tools by a name that a model wrote: the name of the tool, "server.tool",
// or the import path. Several servers may have such a tool.
func (s *Snapshot) Named(name, category string) (found []Tool) {
	for _, v := range s.Servers {
		if category != "" && !strings.EqualFold(v.Category, category) {
			continue
		}
		refs := []string{name, s.function(v.Name).wire[name]}
		if of, ok := cutServer(name, v); ok {
			refs = append(refs, of, s.function(v.Name).wire[of])
		}
		for _, r := range slices.Compact(refs) {
			if t, ok := s.Find(tool.Ref{Server: v.Name, Tool: r}); ok {
				found = append(found, t)
				break
			}
		}
	}
	return found
}

// cutServer removes the server from "github.list_issues" or
// "servers.github.list_issues". The name of a server may contain dots.
func cutServer(name string, v Server) (of string, ok bool) {
	name = strings.TrimPrefix(name, "servers.")
	if of, ok = strings.CutPrefix(name, v.Name+"."); ok {
		return of, true
	}
	return strings.CutPrefix(name, v.Module+".")
}

// NearestServers returns the Python names of servers that are similar to name.
func (s *Snapshot) NearestServers(name string, most int) []string {
	return fault.Nearest(name, slices.Sorted(maps.Values(s.modules)), most)
}

// NearestFunctions returns the functions of a server that are similar to name.
func (s *Snapshot) NearestFunctions(server, name string, most int) []string {
	return fault.Nearest(name, slices.Sorted(maps.Keys(s.function(server).wire)), most)
}
