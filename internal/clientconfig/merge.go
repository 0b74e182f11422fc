package clientconfig

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// merge makes one of entries that mean the same server, and gives each server a
// name of its own.
func merge(env Env, all []Server) []Server {
	var out []Server
	for _, s := range all {
		i := slices.IndexFunc(out, func(o Server) bool { return alike(env, o, s) })
		if i < 0 {
			out = append(out, s)
			continue
		}
		out[i] = joined(out[i], s)
	}
	taken := map[string]bool{}
	for i := range out {
		out[i].Name = free(out[i], taken)
		taken[strings.ToLower(out[i].Name)] = true
	}
	return out
}

// joined is one server of two entries. A value says more than a reference does.
func joined(a, b Server) Server {
	a.From = append(a.From, b.From...)
	a.inputs = append(a.inputs, b.inputs...)
	for _, note := range b.Notes {
		if !slices.Contains(a.Notes, note) {
			a.Notes = append(a.Notes, note)
		}
	}
	if a.Dir != b.Dir && a.implied && b.implied {
		a.Dir = ""
	}
	a.Timeout = max(a.Timeout, b.Timeout)
	if a.Transport == "" {
		a.Transport = b.Transport
	}
	a.Env, a.Headers = moreSaid(a.Env, b.Env), moreSaid(a.Headers, b.Headers)
	return a
}

func moreSaid(a, b map[string]string) map[string]string {
	for name, value := range b {
		if refers(a[name]) && !refers(value) {
			a[name] = value
		}
	}
	return a
}

// alike reports whether two entries mean the same server. Under one name, a
// reference in one that is not known to be anything else may stand for what the
// other says.
func alike(env Env, a, b Server) bool {
	value := func(x, y string) bool { return x == y }
	if strings.EqualFold(a.From[0].Name, b.From[0].Name) {
		value = func(x, y string) bool {
			x, y = env.known(x), env.known(y)
			return x == y || refers(x) || refers(y)
		}
	}
	if a.Command != b.Command || strings.TrimSuffix(a.URL, "/") != strings.TrimSuffix(b.URL, "/") {
		return false
	}
	if a.Transport != b.Transport && a.Transport != "" && b.Transport != "" {
		return false
	}
	return slices.EqualFunc(a.Args, b.Args, value) && sameDir(a, b) &&
		maps.EqualFunc(a.Env, b.Env, value) && maps.EqualFunc(a.Headers, b.Headers, value)
}

// known is a value with what is set in the environment.
func (e Env) known(value string) string {
	return reference.ReplaceAllStringFunc(value, func(ref string) string {
		if set, ok := e.Lookup(ref[2 : len(ref)-1]); ok {
			return set
		}
		return ref
	})
}

// refers reports whether a value is a reference, but for a scheme before it.
func refers(value string) bool {
	_, rest := schemed(value)
	return rest != "" && reference.ReplaceAllString(rest, "") == ""
}

// sameDir reports whether two programs start in directories that make no
// difference: a client starts what it is told to start wherever it is.
func sameDir(a, b Server) bool {
	if a.Dir == b.Dir {
		return true
	}
	return a.implied && b.implied && !slices.ContainsFunc(append([]string{a.Command}, a.Args...), relative)
}

func relative(word string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(word), "/")
	return first == "." || first == ".."
}

// free is a name for s that nobody has: its own, or with where it comes from.
func free(s Server, taken map[string]bool) string {
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
