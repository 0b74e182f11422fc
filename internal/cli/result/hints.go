package result

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// noFile matches the errors of open, read_file and paths outside of the workspace.
var noFile = regexp.MustCompile(`(?:No such file or directory: '([^']+)'|^File not found: (.+)|path outside workspace: '([^']+)')$`)

// noInput is the error of input().
const noInput = "input() is not available: pass values as context_vars"

// explainMissing replaces the hint of an error, if the file that the code did not find exists on this
// machine. A model does not get the hint, since it cannot copy the file.
func explainMissingFile(env *cli.Env, r *reply.Result) {
	if m := noFile.FindStringSubmatch(r.Error); m != nil {
		if path := m[1] + m[2] + m[3]; isOwnFile(path) {
			r.Hint = fmt.Sprintf("code sees only /workspace: `sandpiper files put %[1]s` copies the file there, as does --file %[1]s "+
				"before the code runs", path)
			if name := filepath.Base(path); name != path {
				r.Hint += "; code then reads " + name
			}
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
	own, _ := os.UserHomeDir()
	for _, dir := range []string{working, own} {
		if rel, err := filepath.Rel(dir, absolute); dir != "" && err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// ExplainSession adds a hint to an unknown name in a session that has earlier steps, which may have
// defined it.
func ExplainSession(ctx context.Context, home *home.Home, id string, r *reply.Result) {
	if id == "" || r.ErrorType != "NameError" || r.Hint != "" {
		return
	}
	s, err := home.Sessions.Find(ctx, id)
	if err == nil && len(s.Tasks) > 1 { // the last one is this execution
		r.Hint = fmt.Sprintf("`sandpiper session resume %s -c CODE` runs code with the variables of earlier commands", id)
	}
}
