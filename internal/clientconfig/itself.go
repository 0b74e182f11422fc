package clientconfig

import (
	"path/filepath"
	"slices"
	"strings"
)

// Ourselves is why an entry that is Sandpiper is not taken.
const Ourselves = "it is Sandpiper"

// itself reports whether a server is Sandpiper: connected to itself it would
// offer its own tools to its own code, one inside the other.
//
// Certain is: its name; our program, by whatever path; a program called
// sandpiper, by itself, or anywhere in a command line that says serve after it
// (go run, npx, env, sh -c, docker).
func itself(env Env, s Server) bool {
	if strings.EqualFold(s.Name, "sandpiper") {
		return true
	}
	words := strings.Fields(s.Command)
	if same(env.Self, s.Command) || called(s.Command) {
		return true
	}
	for _, arg := range s.Args {
		words = append(words, strings.FieldsFunc(arg, func(c rune) bool { return strings.ContainsRune(" \t\n;&|()'\"", c) })...)
	}
	at := slices.IndexFunc(words, func(w string) bool { return called(w) || same(env.Self, w) })
	return at >= 0 && slices.Contains(words[at+1:], "serve")
}

// called reports whether a word is a path to something called sandpiper, with
// either slash, or a package of that name in some version.
func called(word string) bool {
	word = word[strings.LastIndexAny(word, `/\`)+1:]
	word, _, _ = strings.Cut(word, "@")
	word, _, _ = strings.Cut(word, ":")
	return strings.EqualFold(strings.TrimSuffix(strings.ToLower(word), ".exe"), "sandpiper")
}

// same reports whether two paths lead to one file.
func same(a, b string) bool {
	if a == "" || !filepath.IsAbs(b) {
		return false
	}
	if x, err := filepath.EvalSymlinks(a); err == nil {
		a = x
	}
	if y, err := filepath.EvalSymlinks(b); err == nil {
		b = y
	}
	return a == b
}
