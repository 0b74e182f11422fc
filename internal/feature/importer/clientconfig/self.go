package clientconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReasonSandpiper is the reason why an entry of Sandpiper is not imported.
const ReasonSandpiper = "it is Sandpiper"

// reasonReplaced is the reason why an entry of the first framework's own server is not imported.
const reasonReplaced = "Sandpiper replaces it: remove it from that client"

// isReplaced reports whether a server is the code execution server of the first framework, which
// has the same tools.
func isReplaced(s Server) bool {
	return slices.ContainsFunc(append([]string{s.Command}, s.Args...), func(word string) bool {
		word = strings.ReplaceAll(word, `\`, "/")
		return word == "code_execution_mcp" || word == "code_execution_mcp.server" || strings.HasSuffix(word,
			"/code_execution_mcp/server.py")
	})
}

// isSandpiper reports whether a server is Sandpiper, which must not connect to
// itself: it would offer its own tools to the code that it runs.
//
// It matches the name sandpiper, the path of our program, a program called
// sandpiper, and a command line in which "serve" follows such a program (go run,
// npx, env, sh -c, docker).
func isSandpiper(env Env, s Server) bool {
	if strings.EqualFold(s.Name, "sandpiper") {
		return true
	}
	if SameFile(env.Self, s.Command) || namedSandpiper(s.Command) {
		return true
	}
	words := strings.Fields(s.Command)
	for _, arg := range s.Args {
		words = append(words, strings.FieldsFunc(arg, func(c rune) bool { return strings.ContainsRune(" \t\n;&|()'\"", c) })...)
	}
	i := slices.IndexFunc(words, func(w string) bool { return namedSandpiper(w) || SameFile(env.Self, w) })
	return i >= 0 && slices.Contains(words[i+1:], "serve")
}

// namedSandpiper reports whether a word is a path (with either slash) or a
// package, with or without a version, whose last part is sandpiper.
func namedSandpiper(word string) bool {
	word = word[strings.LastIndexAny(word, `/\`)+1:]
	word, _, _ = strings.Cut(word, "@")
	word, _, _ = strings.Cut(word, ":")
	return strings.EqualFold(strings.TrimSuffix(strings.ToLower(word), ".exe"), "sandpiper")
}

// SameFile reports whether two paths lead to the same file. b must be absolute.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return a != "" && filepath.IsAbs(b) && (a == b || err == nil && err2 == nil && os.SameFile(x, y))
}
