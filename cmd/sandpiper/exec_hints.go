package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
)

// noFile matches the errors of open, read_file and paths outside of the workspace.
var noFile = regexp.MustCompile(`(?:No such file or directory: '([^']+)'|^File not found: (.+)|path outside workspace: '([^']+)')$`)

// noServer matches the errors of code that names a server that is not there.
var noServer = regexp.MustCompile(`there is no server "([^"]+)"`)

// explainMissing replaces the hint of an error, if the file that the code did not find exists on this
// machine, or the server is disabled. A model gets neither hint, since it can change neither.
func (a *app) explainMissing(r *reply.Result) {
	if m := noFile.FindStringSubmatch(r.Error); m != nil {
		if path := m[1] + m[2] + m[3]; isOwnFile(path) {
			r.Hint = fmt.Sprintf("code sees only /workspace: `sandpiper files put %[1]s` copies the file there, as does --file %[1]s before the code runs", path)
			if name := filepath.Base(path); name != path {
				r.Hint += "; code then reads " + name
			}
		}
	}
	m := noServer.FindStringSubmatch(r.Error)
	if m == nil {
		return
	}
	path, text, err := a.serversFile()
	if err != nil { // its error is not that of the code
		return
	}
	entries, _ := config.EntriesIn(path, text)
	for _, e := range entries {
		if e.Disabled && (e.Name == m[1] || strings.ReplaceAll(e.Name, "-", "_") == m[1]) {
			r.Hint = fmt.Sprintf("%s is disabled in %s: `sandpiper servers enable %[1]s` enables it", e.Name, path)
		}
	}
}

// isOwnFile reports whether a path is that of a file in the working directory or the home directory.
func isOwnFile(path string) bool {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
		return false
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	working, _ := os.Getwd() // "" contains nothing
	home, _ := os.UserHomeDir()
	for _, dir := range []string{working, home} {
		if rel, err := filepath.Rel(dir, absolute); dir != "" && err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
