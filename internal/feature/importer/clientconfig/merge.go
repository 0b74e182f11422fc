package clientconfig

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config/literal"
)

// merge combines equivalent entries and gives each server a unique name.
func merge(env Env, all []Server) []Server {
	var out []Server
	for _, s := range all {
		i := slices.IndexFunc(out, func(o Server) bool { return equivalent(env, o, s) })
		if i < 0 {
			out = append(out, s)
			continue
		}
		out[i] = combine(out[i], s)
	}
	taken := map[string]bool{}
	for i := range out {
		out[i].Name = uniqueName(out[i], taken)
		taken[strings.ToLower(out[i].Name)] = true
	}
	return out
}

// combine merges two equivalent servers.
func combine(a, b Server) Server {
	a.From = append(a.From, b.From...)
	a.inputs = append(a.inputs, b.inputs...)
	for _, note := range b.Notes {
		if !slices.Contains(a.Notes, note) {
			a.Notes = append(a.Notes, note)
		}
	}
	if a.Dir != b.Dir && a.defaultDir && b.defaultDir {
		a.Dir = ""
	}
	a.Timeout = max(a.Timeout, b.Timeout)
	if a.Transport == "" {
		a.Transport = b.Transport
	}
	resolveReferences(a.Env, b.Env)
	resolveReferences(a.Headers, b.Headers)
	return a
}

// resolveReferences replaces references in a by the values that b has.
func resolveReferences(a, b map[string]string) {
	for name, value := range b {
		if literal.IsReference(a[name]) && !literal.IsReference(value) {
			a[name] = value
		}
	}
}

// equivalent reports whether two entries describe the same server. If they have
// the same name, an unresolved reference in one matches any value in the other.
func equivalent(env Env, a, b Server) bool {
	same := func(x, y string) bool { return x == y }
	if strings.EqualFold(a.From[0].Name, b.From[0].Name) {
		same = func(x, y string) bool {
			x, y = literal.Expand(x, env.Lookup), literal.Expand(y, env.Lookup)
			return x == y || literal.IsReference(x) || literal.IsReference(y)
		}
	}
	if a.Command != b.Command || strings.TrimSuffix(a.URL, "/") != strings.TrimSuffix(b.URL, "/") {
		return false
	}
	if a.Transport != b.Transport && a.Transport != "" && b.Transport != "" {
		return false
	}
	return slices.EqualFunc(a.Args, b.Args, same) && sameDir(a, b) &&
		maps.EqualFunc(a.Env, b.Env, same) && maps.EqualFunc(a.Headers, b.Headers, same)
}

// sameDir reports whether the working directories are equal, or neither is
// configured and neither command line has a relative path.
func sameDir(a, b Server) bool {
	if a.Dir == b.Dir {
		return true
	}
	return a.defaultDir && b.defaultDir && !slices.ContainsFunc(append([]string{a.Command}, a.Args...), isRelative)
}

func isRelative(word string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(word), "/")
	return first == "." || first == ".."
}

// uniqueName returns the server's name, with its project or client appended if
// the name is taken.
func uniqueName(s Server, taken map[string]bool) string {
	from := s.From[0]
	suffix := from.File.Client.ID
	if from.Project != "" {
		suffix = strings.ToLower(filepath.Base(from.Project))
	}
	name := s.Name
	for n := 1; taken[strings.ToLower(name)]; n++ {
		name = s.Name + "-" + suffix
		if n > 1 {
			name += "-" + strconv.Itoa(n)
		}
	}
	return name
}
